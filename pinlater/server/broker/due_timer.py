"""Tell when the next job of a queue falls due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized

_LONGEST_TIMER_SECONDS = 3600.0

_LOOP_MS = 1
"""Timers of the event loop have a resolution of a millisecond, and fire late rather than early."""

_BEHIND_RETRY_SHARE = 0.25
"""If a job is due by the clock of the store, but not on its shard, the clock of the shard is behind. The next attempt
comes after this share of the time since the job fell due."""

_LONGEST_BEHIND_RETRY_MS = 500


class DueTimer:
    """Tells when the next job of a queue falls due; all times are epoch milliseconds of the store's clock.

    Args:
        now_ms: the clock of the store.
        on_due: called with the time when a job has fallen due.
        waits: the dequeues that wait for the job; while there are any, the last millisecond is not slept through.
    """

    __slots__ = ("_due_ms", "_last_due_ms", "_now_ms", "_on_due", "_timer", "_waits")

    def __init__(self, now_ms: Callable[[], int], on_due: Callable[[int], None], waits: Sized) -> None:
        self._now_ms = now_ms
        self._on_due = on_due
        self._waits = waits
        self._due_ms: int | None = None
        self._last_due_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def has_told(self, due_ms: int) -> bool:
        """Return whether it has told of a job that was due then, or later."""
        return due_ms <= self._last_due_ms

    def expect(self, due_ms: int | None) -> None:
        """Tell when a job is due, unless an earlier one is expected; None: no job is known."""
        if due_ms is not None and due_ms <= self._last_due_ms:  # a dequeue was woken for it, and it was not due
            now_ms = self._now_ms()
            retry_ms = max(int((now_ms - due_ms) * _BEHIND_RETRY_SHARE), 1)
            due_ms = now_ms + min(retry_ms, _LONGEST_BEHIND_RETRY_MS)
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self.cancel()
            self._sleep_until(due_ms)

    def cancel(self) -> None:
        """Expect no job any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _sleep_until(self, due_ms: int) -> None:
        delay_ms = max(due_ms - self._now_ms() - _LOOP_MS, 0)
        self._call_in(min(delay_ms / 1000, _LONGEST_TIMER_SECONDS))

    def _call_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        assert self._due_ms is not None
        early_ms = self._due_ms - self._now_ms()
        if early_ms > _LOOP_MS:
            self._sleep_until(self._due_ms)
        elif early_ms > 0:  # too short for a timer: while a dequeue waits, check in every turn of the loop
            self._call_in(0.0 if self._waits else _LOOP_MS / 1000)
        else:
            self._last_due_ms, self._due_ms = self._due_ms, None
            self._on_due(self._last_due_ms)
