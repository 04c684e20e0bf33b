"""PinLater."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

from note import note

from pinlater import Client, Job, JobContext


class Note(Job, queue="peers"):
    """Note its start."""

    number: int

    def run(self, context: JobContext) -> None:  # noqa: ARG002 - part of every job
        note(self.number)


@functools.cache
def _client() -> Client:
    return Client(os.environ["PEERS_URL"])


def enqueue(number: int) -> None:
    _client().enqueue(Note(number=number))


def enqueue_many(numbers: Iterable[int]) -> None:
    _client().enqueue_many(Note(number=number) for number in numbers)
