"""beanstalkd with greenstalk; it comes without a worker, so this is the simplest loop: reserve, run, delete."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

import greenstalk
from note import note
from outstanding import keep_outstanding


@functools.cache
def _client() -> greenstalk.Client:
    return greenstalk.Client(_address())


def _address() -> tuple[str, int]:
    host, port = os.environ["PEERS_URL"].split(":")
    return host, int(port)


def enqueue(number: int) -> None:
    _client().put(str(number))


def enqueue_outstanding(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Send the bytes that ``put`` sends."""
    bodies = [b"%d" % number for number in numbers]
    requests = [
        b"put %d 0 %d %d\r\n%b\r\n" % (greenstalk.DEFAULT_PRIORITY, greenstalk.DEFAULT_TTR, len(body), body)
        for body in bodies
    ]
    return keep_outstanding(_address(), requests, _is_inserted)


def _is_inserted(answer: bytes) -> bool:
    if not answer.endswith(b"\r\n"):
        return False
    if not answer.startswith(b"INSERTED "):
        raise RuntimeError(f"a job was refused: {answer!r}")
    return True


def work() -> None:
    client = _client()
    while True:
        job = client.reserve()
        note(int(job.body))
        client.delete(job)


if __name__ == "__main__":
    work()
