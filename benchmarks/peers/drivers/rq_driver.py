"""RQ."""

from __future__ import annotations

import functools
import os

import redis
from note import note
from rq import Queue


@functools.cache
def _queue() -> Queue:
    return Queue("peers", connection=redis.Redis.from_url(os.environ["PEERS_URL"]))


def enqueue(number: int) -> None:
    _queue().enqueue(note, number)
