"""Retries of single steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from pinlater.model.backoff import DEFAULT_BACKOFF, Backoff

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retrying(Generic[_P, _T]):
    """A step function with retries, made by ``retrying``; called outside ``JobContext.step``, it runs once.

    Attributes:
        function: what the step does.
        attempts: attempts of the step, the first included, within one attempt of the job.
        backoff: delay before the next attempt of the step.
    """

    function: Callable[_P, _T]
    attempts: int
    backoff: Backoff

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"retrying(attempts={self.attempts}) counts the first one and must be at least 1")

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the function."""
        return self.function(*args, **kwargs)


def retrying(function: Callable[_P, _T], *, attempts: int, backoff: Backoff = DEFAULT_BACKOFF) -> Retrying[_P, _T]:
    """Return a function that ``JobContext.step`` retries by itself.

    ::

        context.step("download", retrying(download, attempts=5, backoff=Exponential(first=1)), url)

    When the step raises and has attempts left, the job goes back to its queue, as in a sleep, and runs the step again
    after the backoff: no attempt of the job is spent. When the step's last attempt fails, its exception is raised in
    the job. In the next attempt of the job, the step has all its attempts again.

    ``Retry(after)`` sets the step's next delay. ``Discard``, ``JobTimeout`` and exceptions in the class's
    ``give_up_on`` are raised in the job at once. If the job catches the step's last exception and continues, the step
    is not finished: if the job is interrupted or sleeps later in this attempt, the step is tried once more.

    Coroutine functions work, too. If other steps run at the same time as a failed one, the job waits for them before it
    goes back; if several steps are to be retried, the job continues after the longest backoff.

    Args:
        function: what the step does.
        attempts: attempts of the step, the first included.
        backoff: delay before the next attempt of the step.

    Raises:
        ValueError: ``attempts`` is less than 1.
    """
    return Retrying(function, attempts, backoff)
