"""Dramatiq on Redis."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from note import note

dramatiq.set_broker(RedisBroker(url=os.environ["PEERS_URL"]))


@dramatiq.actor
def note_start(number: int) -> None:
    note(number)


def enqueue(number: int) -> None:
    note_start.send(number)
