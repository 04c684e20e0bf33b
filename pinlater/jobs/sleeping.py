"""Sleeps that occupy no process: the job returns to its queue until it is due."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from pinlater.errors import JobSleeps
from pinlater.jobs.awaited_call import refuse_await
from pinlater.jobs.times import END_OF_TIME, check_seconds, epoch_seconds

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext


def sleep_until(
    context: WorkflowContext,
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
        TypeError: the moment is neither a datetime nor a number, or the job awaits the sleep.
        ValueError: the moment is NaN, or more than 3000 years away, such as one in milliseconds.
    """
    context.go_on_to_wait()
    if name in sleeps:  # the server has handed the job out, so the sleep is over by its clock
        return
    wake_seconds = epoch_seconds(moment, "sleep_until")
    if wake_seconds <= context.server_seconds():
        return
    context.begin()
    refuse_await()
    wake_ms = math.ceil(wake_seconds * 1000)
    save()
    sleeps[name] = wake_ms
    raise context.interrupt(JobSleeps(wake_ms))


def moment_after(context: WorkflowContext, seconds: float) -> float:
    """Return the epoch seconds of the moment ``seconds`` from now, by the server's clock.

    Raises:
        TypeError: ``seconds`` is not a number.
        ValueError: ``seconds`` is negative or not finite.
    """
    check_seconds(seconds, "the time of a sleep")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"sleep_for({seconds}) takes seconds; they cannot be negative or endless")
    return context.server_seconds() + float(seconds)


def check_timeout(timeout: float | None) -> None:
    """Refuse a ``timeout`` of a wait that is neither None nor a number of seconds; it may have passed.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not finite, or thousands of years.
    """
    if timeout is None:
        return
    check_seconds(timeout, "the timeout of a wait")
    if not -END_OF_TIME < timeout < END_OF_TIME:
        raise ValueError(f"timeout={timeout} is in seconds, and too long; leave it out to wait without a limit")
