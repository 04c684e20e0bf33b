"""Time limits of one run, including its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from os import getpid
from threading import Lock
from time import monotonic
from typing import NamedTuple

from pinlater.errors import JobExpired, JobStalled, JobTimeout, StepTimeout
from pinlater.jobs.options import KILL_SLACK_SECONDS, JobOptions

_MOVE_SECONDS = 1.0
"""The kill time follows progress in steps of this length, which is shorter than its slack."""
_GRACE_SECONDS = 1.0
"""After an exceeded limit no other one is raised for this time, so that the job can clean up."""


class LimitExceeded(NamedTuple):
    """Says why a run is stopped.

    Attributes:
        kind: class of the exception that the job gets.
        text: text of the exception.
    """

    kind: type[JobTimeout | StepTimeout]
    text: str

    def error(self) -> JobTimeout | StepTimeout:
        """Return the exception."""
        return self.kind(self.text)


class RunLimits:
    """Tracks the limits of one run. Times are in seconds on the monotonic clock.

    Args:
        options: options of the job.
        began: when the run began.
        kill_ns: column of the claim table that shows whose limit a kill was for.
        position: position of the job there.
        expires_at: when its ``give_up_after`` is over.

    Attributes:
        kill_at: when the process is to be killed for this run, as far as the master knows; inf: never.
    """

    def __init__(
        self, options: JobOptions, began: float, kill_ns: memoryview[int], position: int, expires_at: float = inf
    ) -> None:
        hard, soft, stall = options.hard_seconds, options.timeout, options.stall_after
        self._seconds = inf if soft is None else soft
        self._timeout_at = began + self._seconds
        self._stall_seconds = inf if stall is None else stall
        self._expires_at, self._options = expires_at, options
        self._latest_kill = min(inf if hard is None else began + hard, expires_at + KILL_SLACK_SECONDS)
        self._recorded_at, self._struck_progress = began, inf
        self._calls_until: list[float] = []  # tasks and threads of a job may call at the same time
        self._quiet_until = began
        self._move_at = inf if stall is None else began + _MOVE_SECONDS
        self._kill_ns, self._position = kill_ns, position
        self._lock, self._is_over, self._pid = Lock(), True, getpid()
        self._move_kill: Callable[[float], object] = _ignore_move
        self.kill_at = min(self._latest_kill, began + self._stall_seconds + KILL_SLACK_SECONDS)
        kill_ns[position] = int(self.kill_at * 1e9) if self.kill_at < inf else 0

    # The hard limit

    def begin(self, move_kill: Callable[[float], object]) -> None:
        """Start the run; call ``move_kill`` when the kill time moves."""
        self._move_kill, self._is_over = move_kill, False

    def end(self) -> None:
        """End the run: leftover threads of the job no longer move the kill time."""
        with self._lock:
            self._is_over = True

    # Signs of progress

    def record_progress(self, now: float) -> None:
        """Record progress; called at every checkpoint."""
        self._recorded_at = now
        if now >= self._move_at:
            self._move_kill_now(now)

    @contextmanager
    def calling(self, most_seconds: float) -> Iterator[None]:
        """Count the wait for a server, up to ``most_seconds``, as progress."""
        until = monotonic() + most_seconds
        self._calls_until.append(until)
        try:
            self._move_kill_now(until)
            yield
        finally:
            self._calls_until.remove(until)
            self._recorded_at = now = monotonic()
            self._move_kill_now(now)

    @property
    def _progress_at(self) -> float:
        """When the job last made progress, in the future while it waits for a server."""
        return max([self._recorded_at, *self._calls_until])

    def _move_kill_now(self, now: float) -> None:
        self._move_at = now + _MOVE_SECONDS
        if getpid() != self._pid:  # a fork of the job must not postpone its parent's kill; and the lock is a copy
            return
        with self._lock:
            if self._is_over:
                return
            self.kill_at = min(self._latest_kill, self._progress_at + self._stall_seconds + KILL_SLACK_SECONDS)
            self._kill_ns[self._position] = int(self.kill_at * 1e9)
            self._move_kill(self.kill_at)

    # The soft limits

    @property
    def is_soft(self) -> bool:
        """Whether there is a soft limit."""
        return min(self._timeout_at, self._expires_at, self._stall_seconds) < inf

    def due(self, now: float) -> LimitExceeded | None:
        """Return the limit that is exceeded now. Each is returned once; a stall once after each progress."""
        if now < self._quiet_until:
            return None
        if now >= self._expires_at:
            self._expires_at = inf
            exceeded = LimitExceeded(JobExpired, f"its give_up_after of {self._options.give_up_after:g} s is over")
        elif now >= self._timeout_at:
            self._timeout_at = inf
            exceeded = LimitExceeded(JobTimeout, f"it ran for longer than its timeout of {self._seconds:g} s")
        elif now >= self._stalls_at:
            exceeded = LimitExceeded(
                JobStalled, f"it gave no sign of progress for {self._stall_seconds:g} s, its stall_after"
            )
        else:
            return None
        self._struck_progress, self._quiet_until = self._progress_at, now + _GRACE_SECONDS
        return exceeded

    def next_check_in(self, now: float) -> float | None:
        """Return the seconds until a limit may be exceeded; None for never."""
        moment = min(self._timeout_at, self._expires_at)
        if self._stall_seconds < inf:
            moment = min(moment, self._stalls_at, now + self._stall_seconds)  # progress may come, or be taken back
        moment = max(moment, self._quiet_until)
        return None if moment == inf else max(moment - now, 0.0)

    @property
    def _stalls_at(self) -> float:
        return inf if self._progress_at == self._struck_progress else self._progress_at + self._stall_seconds


def _ignore_move(_: float) -> None:
    """Ignore the kill time."""
