"""A rate limit for log records that clients can cause, so that they cannot fill the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

MOST_A_SECOND = 20


class LogRateLimit(logging.Filter):
    """Lets some records of a logger through; the first one after a gap says how many are missing.

    Args:
        clock: monotonic seconds.
        spares_errors: whether errors are always written, since the server causes them, not a client.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, spares_errors: bool = True) -> None:
        super().__init__()
        self._spares_errors = spares_errors
        self._clock = clock
        self._second = -1
        self._passed = 0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        if self._spares_errors and record.levelno >= logging.ERROR:
            return True
        second = int(self._clock())
        if second != self._second:
            self._second, self._passed = second, 0
        if self._passed >= MOST_A_SECOND:
            self._left_out += 1
            return False
        self._passed += 1
        if self._left_out:
            record.msg, record.args = f"{record.getMessage()} ({self._left_out} records before this were left out)", ()
            self._left_out = 0
        return True
