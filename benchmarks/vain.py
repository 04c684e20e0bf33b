"""Dequeues that query the store and find nothing, while jobs come one by one to a fleet where many dequeues wait."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Thread
from typing import NamedTuple

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure, percentile
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.client import Client, NewJob
from pinlater.errors import PinLaterError
from pinlater.protocol.messages import PinLaterJobAckInfo

SERVERS = (4, 8)
SHARDS = 4
WAITING = 40
"""Number of waiting dequeues at all servers together."""
JOBS = 500
PAUSE_SECONDS = 0.02
DELAY_MS = 1000
SETTLE_SECONDS = 5.0
"""How long until each server has found the queue empty, and knows the other servers."""

_PATIENCE_SECONDS = 30.0
_WAIT_MS = 300_000
_CLAIMS = re.compile(r'store_seconds_count\{[^}]*"dequeue"[^}]*\} (\S+)')


class _Case(NamedTuple):
    """Where dequeues wait, and when the jobs are due."""

    name: str
    title: str
    is_elsewhere: bool = False
    delay_ms: int = 0


_CASES = (
    _Case("here", "dequeues wait at all servers"),
    _Case("elsewhere", "dequeues wait at all servers but the one that stores the jobs", is_elsewhere=True),
    _Case("later", "dequeues wait at all servers, jobs fall due later", delay_ms=DELAY_MS),
)


def measure(setting: Setting) -> list[Figure]:
    """Measure the share of dequeues that find nothing, the statements per job, and how late a dequeue gets it."""
    if not setting.stores.is_shared:
        return []
    return [figure for servers in SERVERS for case in _CASES for figure in _measure_case(setting, servers, case)]


def _measure_case(setting: Setting, count: int, case: _Case) -> list[Figure]:
    name, jobs = f"vain_{count}_{case.name}", setting.amount(JOBS)
    got: list[float] = []
    with ExitStack() as stack:
        servers = [stack.enter_context(server) for server in setting.servers(count, name, shards=SHARDS)]
        servers[0].create_queue("jobs")
        for server in servers[case.is_elsewhere :]:
            for _ in range(WAITING // count):
                Thread(target=_consume, args=(server, got), daemon=True).start()
        time.sleep(max(SETTLE_SECONDS * setting.scale, 2.0))
        claims, statements = _claims(servers), setting.statements(name)
        clients = [stack.enter_context(server.client()) for server in servers[: 1 if case.is_elsewhere else count]]
        due = [_enqueue(clients[number % len(clients)], case.delay_ms) for number in range(jobs)]
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(got) < jobs:
            if time.monotonic() > deadline:
                raise ProgramFailed(f"{jobs} jobs were enqueued, but {len(got)} were handed out")
            time.sleep(0.01)
        claims, statements = _claims(servers) - claims, setting.statements(name) - statements
    late_ms = [(at - due_at) * 1000 for at, due_at in zip(sorted(got), due, strict=True)]
    title = f"{count} servers, {case.title}"
    return [
        Figure(name, f"{title}: dequeues that find nothing", "%", [(claims - jobs) / claims * 100]),
        Figure(f"{name}_statements", "  statements a job", "", [statements / jobs]),
        *(
            Figure(f"{name}_p{at}", f"  until a dequeue has it, p{at}", "ms", [percentile(late_ms, at)])
            for at in (50, 99)
        ),
    ]


def _enqueue(client: Client, delay_ms: int) -> float:
    """Enqueue a job, then pause; return when it is due, in epoch seconds."""
    now = time.time()
    client.enqueue_jobs("jobs", [NewJob(b"{}", run_after_ms=int(now * 1000) + delay_ms if delay_ms else None)])
    time.sleep(max(PAUSE_SECONDS - (time.time() - now), 0.0))
    return now + delay_ms / 1000


def _consume(server: Server, got: list[float]) -> None:
    """Claim one job after the other, until the server is gone; record when each came, in epoch seconds."""
    acks: Sequence[PinLaterJobAckInfo] = ()
    try:
        with server.connection() as connection:
            while True:
                send_dequeue(connection, "jobs", 1, acks, wait_ms=_WAIT_MS)
                acks = acks_of(connection.receive(_WAIT_MS / 1000 + _PATIENCE_SECONDS))
                got += [time.time()] * len(acks)
    except PinLaterError:
        return


def _claims(servers: Sequence[Server]) -> float:
    """Return how often the servers have queried the store for jobs."""
    total = 0.0
    for server in servers:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics") as answer:
            total += sum(map(float, _CLAIMS.findall(answer.read().decode())))
    return total
