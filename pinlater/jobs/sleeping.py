"""Sleeps that occupy no process: the job returns to its queue until it is due."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from numbers import Real

from pinlater.errors import JobSleeps
from pinlater.jobs.interruptible import InterruptibleContext

_END_OF_TIME = 1e11
"""Epoch seconds, in the year 5138."""


def sleep_until(
    context: InterruptibleContext,
    sleeps: dict[str, int],
    name: str,
    moment: datetime | float,
    save: Callable[[], object],
) -> None:
    """Return if the sleep is over, otherwise begin it; see ``JobContext.sleep_until``.

    Args:
        context: context of the attempt.
        sleeps: name of a sleep that is over or about to begin -> epoch milliseconds at which it ends.
        name: name of this sleep.
        moment: its end.
        save: saves the record before the sleep begins.

    Raises:
        JobSleeps: the sleep begins.
        JobInterrupted: the attempt was already interrupted.
        SagaUndone: the job has given up.
        ValueError: the moment is not a number, or more than 3000 years away, such as one in milliseconds.
    """
    context.go_on_to_wait()
    if name in sleeps:  # the server has handed the job out, so the sleep is over by its clock
        return
    context.begin()
    wake_seconds = moment.timestamp() if isinstance(moment, datetime) else moment
    if not wake_seconds < _END_OF_TIME:
        raise ValueError(f"sleep_until({moment}) takes a datetime or epoch seconds; this is in the far future")
    if wake_seconds <= context.server_seconds():
        return
    wake_ms = math.ceil(wake_seconds * 1000)
    save()
    sleeps[name] = wake_ms
    raise context.interrupt(JobSleeps(wake_ms))


def moment_after(context: InterruptibleContext, seconds: float) -> float:
    """Return the epoch seconds of the moment ``seconds`` from now, by the server's clock.

    Raises:
        TypeError: ``seconds`` is not a number.
        ValueError: ``seconds`` is negative or not finite.
    """
    _check_number(seconds, "the time of a sleep")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"sleep_for({seconds}) takes seconds; they cannot be negative or endless")
    return context.server_seconds() + seconds


def check_timeout(timeout: float | None) -> None:
    """Refuse a ``timeout`` of a wait that is neither None nor a finite number of seconds; it may have passed.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not finite.
    """
    if timeout is None:
        return
    _check_number(timeout, "the timeout of a wait")
    if not math.isfinite(timeout):
        raise ValueError(f"timeout={timeout} is in seconds, and must be finite; leave it out to wait without a limit")


def _check_number(seconds: float, what: str) -> None:
    if not isinstance(seconds, Real):
        raise TypeError(f"{what} is a number of seconds, such as 3 * 86400 for three days, not {seconds!r:.80}")
