"""Retries and time limits of single steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Generic, ParamSpec, TypeVar

from pinlater.model.backoff import DEFAULT_BACKOFF, Backoff

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Timed(Generic[_P, _T]):
    """A step function with a time limit, made by ``timed``; called outside ``JobContext.step``, it has no limit.

    Attributes:
        function: what the step does.
        timeout: seconds.
    """

    function: Callable[_P, _T]
    timeout: float

    def __post_init__(self) -> None:
        _check_function(self.function, "timed")
        if not 0 < self.timeout < inf:
            raise ValueError(f"timeout={self.timeout} of a step is in seconds, and must be more than 0 and finite")

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the function."""
        return self.function(*args, **kwargs)


def timed(function: Callable[_P, _T], *, timeout: float) -> Timed[_P, _T]:
    """Return a function that ``JobContext.step`` stops when it takes too long.

    ::

        context.step("download", timed(download, timeout=60), url)

    After ``timeout`` seconds ``StepTimeout`` is raised in the function, as ``JobTimeout`` is in a job; a coroutine
    function gets ``asyncio.CancelledError`` at its ``await``. The step has then failed. To retry it, see ``retrying``.

    In the main thread of a process that runs one job at a time, blocking calls are interrupted. In other threads, as
    with ``--threads``, the exception is raised when the blocking call returns. A function that ignores the exception
    continues until the job's own time limits end it.

    Args:
        function: what the step does.
        timeout: seconds.

    Raises:
        TypeError: ``function`` cannot be called.
        ValueError: ``timeout`` is not more than 0, or not finite.
    """
    return Timed(function, timeout)


def _check_function(function: object, what: str) -> None:
    if not callable(function):
        raise TypeError(f"{what} takes the function of a step, not {function!r:.80}; do not call the function")


def timeout_of(function: Callable[..., object]) -> float | None:
    """Return the time limit of a step function, in seconds; None if it has none."""
    if isinstance(function, Retrying):
        function = function.function
    return function.timeout if isinstance(function, Timed) else None


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
        _check_function(self.function, "retrying")
        if self.attempts < 1:
            raise ValueError(f"retrying(attempts={self.attempts}) counts the first one and must be at least 1")

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the function."""
        return self.function(*args, **kwargs)


def retrying(
    function: Callable[_P, _T], *, attempts: int, backoff: Backoff = DEFAULT_BACKOFF, timeout: float | None = None
) -> Retrying[_P, _T]:
    """Return a function that ``JobContext.step`` retries without spending attempts of the job.

    ::

        context.step("download", retrying(download, attempts=5, backoff=Exponential(first=1)), url)

    When the step raises and has attempts left, the job goes back to its queue, as in a sleep, and runs the step again
    after the backoff: no attempt of the job is spent. When the step's last attempt fails, its exception is raised in
    the job. In the next attempt of the job, the step has all its attempts again.

    ``Retry(after)`` sets the step's next delay. ``Discard``, ``JobTimeout`` and exceptions in the class's
    ``give_up_on`` are raised in the job at once. If the job catches the step's last exception and continues, the step
    is not finished: if the job is interrupted or sleeps later in this attempt, the step is tried once more.

    Coroutine functions work, too. If other steps run at the same time as a failed one, the job goes back when they have
    ended; a step whose backoff is over before that is retried beside them. If several steps are to be retried when the
    job goes back, it continues after the longest backoff.

    Args:
        function: what the step does.
        attempts: attempts of the step, the first included.
        backoff: delay before the next attempt of the step.
        timeout: seconds that each attempt of the step may take, as in ``timed``; None: no limit.

    Raises:
        TypeError: ``function`` cannot be called.
        ValueError: ``attempts`` is less than 1, or ``timeout`` is not more than 0, or not finite.
    """
    limited = function if timeout is None else timed(function, timeout=timeout)
    return Retrying(limited, attempts, backoff)
