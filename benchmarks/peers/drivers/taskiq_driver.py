"""taskiq on Redis, with lists or with streams; its client is asynchronous."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Iterable

import uvloop
from note import note
from taskiq_redis import ListQueueBroker, RedisStreamBroker

_kind = RedisStreamBroker if os.environ.get("PEERS_STREAM") == "1" else ListQueueBroker
broker = _kind(os.environ["PEERS_URL"], **({"consumer_id": "0"} if _kind is RedisStreamBroker else {}))


@broker.task
async def note_start(number: int) -> None:
    note(number)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = uvloop.new_event_loop()
    loop.run_until_complete(broker.startup())
    return loop


def enqueue(number: int) -> None:
    _loop().run_until_complete(note_start.kiq(number))


def enqueue_many(numbers: Iterable[int]) -> None:
    async def send() -> None:
        for number in numbers:
            await note_start.kiq(number)

    _loop().run_until_complete(send())
