"""Enforces the time limits of steps: by a signal in the main thread, by an alarm in other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType

from pinlater.errors import StepTimeout
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.worker.running.alarms import Alarms
from pinlater.worker.running.run_limits import LimitExceeded
from pinlater.worker.running.timer import STEP_SIGNAL, Timer, own_timer
from pinlater.worker.running.with_entries import RETRY_SECONDS, Postponement, is_entering

LimitStep = Callable[[StepDeadline], AbstractContextManager[None]]
"""Returns a context in which ``StepTimeout`` is raised at the deadline."""


def never_saving() -> bool:
    """Return False."""
    return False


class StepLimits:
    """Limits the steps of blocking functions, in whatever thread they run.

    Args:
        is_saving: tells whether the main thread is calling the server; until that ends, limits are postponed.
    """

    def __init__(self, is_saving: Callable[[], bool] = never_saving) -> None:
        self._is_saving = is_saving

    def limit(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context in which ``StepTimeout`` is raised at the deadline."""
        if threading.current_thread() is threading.main_thread():
            timer = _main_timer()
            if timer is not None:
                return timer.limit(deadline, self._is_saving)
        return limit_by_alarm(_watched_alarms(), deadline)


class _MainThreadTimer:
    """Raises ``StepTimeout`` in the main thread; steps may be nested."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._deadlines: list[StepDeadline] = []
        self._is_saving: Callable[[], bool] = never_saving
        self._postponement = Postponement()

    @contextmanager
    def limit(self, deadline: StepDeadline, is_saving: Callable[[], bool]) -> Iterator[None]:
        self._is_saving = is_saving
        self._deadlines.append(deadline)
        try:
            self._timer.open(self._on_timer)
            self._set_timer()
            yield
        finally:
            try:
                self._close(deadline)
            finally:  # the timer may interrupt the line above, but it fires only once, so not this one
                self._close(deadline)

    def _close(self, deadline: StepDeadline) -> None:
        if deadline in self._deadlines:
            del self._deadlines[self._deadlines.index(deadline) :]
            self._set_timer()

    def _set_timer(self) -> None:
        now = monotonic()
        left = [seconds for each in self._deadlines if (seconds := each.seconds_left(now)) is not None]
        self._timer.set(min(left, default=None))

    def _on_timer(self, _number: int, frame: FrameType | None) -> None:
        # A call cut off in the middle would leave the connection unusable, and a lock might stay locked.
        if self._deadlines and (self._is_saving() or self._postponement.is_needed(is_unsafe=is_entering(frame))):
            self._timer.set(RETRY_SECONDS)
            return
        now = monotonic()
        is_due = any(each.comes(now) for each in self._deadlines)
        self._set_timer()
        if is_due:
            raise StepTimeout


@cache
def _main_timer() -> _MainThreadTimer | None:
    timer = own_timer(STEP_SIGNAL)
    return None if timer is None else _MainThreadTimer(timer)


class _AlarmLimit:
    """The deadline of a step, as a ``SoftLimit``."""

    def __init__(self, deadline: StepDeadline) -> None:
        self._deadline = deadline

    def due(self, now: float) -> LimitExceeded | None:
        return LimitExceeded(StepTimeout, "") if self._deadline.comes(now) else None

    def next_check_in(self, now: float) -> float | None:
        return self._deadline.seconds_left(now)


def limit_by_alarm(alarms: Alarms, deadline: StepDeadline) -> AbstractContextManager[None]:
    """Return a context in which ``StepTimeout`` is raised in this thread at the deadline."""
    return alarms.armed(_AlarmLimit(deadline))


@cache
def _watched_alarms() -> Alarms:
    """Return alarms for threads that nobody else checks, and start a thread that checks them."""
    # Not an Event, which takes a lock in Python code: a limit raised there would leave it locked for ever.
    wakes: SimpleQueue[None] = SimpleQueue()
    alarms = Alarms(partial(wakes.put, None))

    def watch() -> None:
        while True:
            with suppress(Empty):
                wakes.get(timeout=alarms.check())

    threading.Thread(target=watch, name="step-limits", daemon=True).start()
    return alarms
