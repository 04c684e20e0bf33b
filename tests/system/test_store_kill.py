"""``kill -9`` in the middle of storing: whatever was answered is there afterwards, byte for byte."""

import asyncio
import hashlib
import random
import subprocess
import sys
import time
from pathlib import Path

import pinlater
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.store_options import StoreOptions
from tests.support.bench import FakeClock

KILLS = 10

PROGRAM = """
import asyncio, hashlib, sys, time
from pathlib import Path
from pinlater.model.jobs import (NewJob)
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.store_options import StoreOptions

def body(text):
    return text.encode() + b":" + hashlib.sha256(text.encode()).digest() * 20

async def enqueue(backend, life, lane):
    for number in range(10**9):
        texts = [f"{life}.{lane}.{number}.{at}" for at in range(lane + 1)]
        names = await backend.enqueue_jobs("emails", [NewJob(body(text), 1, None, 2, "") for text in texts])
        sys.stdout.write("".join(f"{name} {text}\\n" for name, text in zip(names, texts)))
        sys.stdout.flush()

async def main(folder, life):
    backend = SqliteStore(Path(folder), StoreOptions(3, now_ms=lambda: time.time_ns() // 10**6))
    await backend.create_queue("emails")
    await asyncio.gather(*(enqueue(backend, life, lane) for lane in range(8)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def _live_and_die(folder, life, seconds):
    """Let a process store until it is killed; return what it was answered: descriptor -> text."""
    root = Path(pinlater.__file__).parents[1]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, folder, str(life)], cwd=root, stdout=subprocess.PIPE)
    try:
        first = process.stdout.readline()
        time.sleep(seconds)
    finally:
        process.kill()
        rest = process.communicate()[0]
    lines = (first + rest).decode().splitlines(keepends=True)
    return dict(line.split() for line in lines if line.endswith("\n"))


async def _read(folder, names):
    backend = SqliteStore(folder, StoreOptions(3, now_ms=FakeClock()))
    try:
        return await backend.lookup_jobs([JobDescriptor.parse(name) for name in names], body_bytes=1_000_000)
    finally:
        await backend.close()


def test_no_answered_job_is_lost_or_damaged_by_ten_kills(tmp_path):
    chance = random.Random(1)
    answered = {}
    for life in range(KILLS):
        of_this_life = _live_and_die(tmp_path, life, chance.uniform(0.01, 0.15))
        assert of_this_life, "the process died before its first answer"
        assert not answered.keys() & of_this_life.keys(), "an id was given out twice"
        answered |= of_this_life
    for text, record in zip(answered.values(), asyncio.run(_read(tmp_path, answered)), strict=True):
        assert record is not None, f"job {text} was lost"
        assert record.state == PENDING
        assert record.body == text.encode() + b":" + hashlib.sha256(text.encode()).digest() * 20
