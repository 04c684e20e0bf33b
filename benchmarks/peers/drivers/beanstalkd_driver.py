"""beanstalkd with greenstalk; it has no worker of its own, so this is the simplest loop: reserve, run, delete."""

from __future__ import annotations

import functools
import os

import greenstalk
from note import note


@functools.cache
def _client() -> greenstalk.Client:
    host, port = os.environ["PEERS_URL"].split(":")
    return greenstalk.Client((host, int(port)))


def enqueue(number: int) -> None:
    _client().put(str(number))


def work() -> None:
    client = _client()
    while True:
        job = client.reserve()
        note(int(job.body))
        client.delete(job)


if __name__ == "__main__":
    work()
