"""Huey on Redis."""

from __future__ import annotations

import os

from huey import RedisHuey
from note import note

huey = RedisHuey("peers", url=os.environ["PEERS_URL"], results=os.environ.get("PEERS_RESULTS") == "1")


@huey.task()
def note_start(number: int) -> None:
    note(number)


def enqueue(number: int) -> None:
    note_start(number)
