"""The tokens of a limited queue, when several processes hand out its jobs: they take from one bucket."""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pinlater.server.rate_limits import Bucket

_STATE = struct.Struct("=dd")


class SharedBucket(Bucket):
    """A bucket whose state is in a file; the monotonic clock is the same one in all processes of a host.

    Its lock is held for some microseconds, and ends with its holder, however that ends.

    Args:
        folder: shared with the other processes of this server, and with nobody else.
        queue: whose jobs are limited.
        rate: tokens per second.
        now: monotonic seconds.
    """

    def __init__(self, folder: Path, queue: str, rate: float, now: float) -> None:
        super().__init__(rate, now)
        name = hashlib.sha256(queue.encode()).hexdigest()  # of any queue, a name that a file can have
        self._file = os.open(folder / f"{name[:32]}.bucket", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._file)  # limits come and go; nobody closes a bucket

    def change_rate(self, rate: float, now: float) -> None:
        with self._shared():
            super().change_rate(rate, now)

    def take(self, wanted: int, now: float) -> int:
        with self._shared():
            return super().take(wanted, now)

    def give_back(self, count: int, now: float) -> None:
        with self._shared():
            super().give_back(count, now)

    def seconds_until_next(self, now: float) -> float:
        with self._shared():
            return super().seconds_until_next(now)

    @contextmanager
    def _shared(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            state = os.pread(self._file, _STATE.size, 0)
            if len(state) == _STATE.size:
                self._tokens, self._filled_at = _STATE.unpack(state)
            yield
            os.pwrite(self._file, _STATE.pack(self._tokens, self._filled_at), 0)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
