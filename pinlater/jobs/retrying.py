"""Steps with attempts of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from pinlater.model.backoff import DEFAULT_BACKOFF, Backoff

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retrying(Generic[_P, _T]):
    """A function for ``JobContext.step``; made by ``retrying``. Called by itself, it is the function, once.

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
    """Give a step attempts of its own.

    ::

        context.step("download", retrying(download, attempts=5, backoff=Exponential(first=1)), url)

    When such a step raises and has attempts left, the job gives its process back, as if it slept, and comes to the
    step again when the backoff is over: no attempt of the job is spent. When the last one fails, its exception is
    raised in the job. The next attempt of the job begins with all attempts of the step.

    ``Retry(after)`` sets the delay of the step, this once. ``Discard``, ``JobTimeout`` and what the class gives up on
    are raised in the job at once. If the job catches the step's last exception and goes on, the step is not
    finished: should the job be interrupted or sleep later in this attempt, the step is tried once more.

    Coroutine functions are welcome. While other steps are under way beside a failed one, the process is kept until
    they have ended; when several wait for another attempt, the job goes on when the last one's backoff is over.

    Args:
        function: what the step does.
        attempts: attempts of the step, the first included.
        backoff: delay before the next one.

    Raises:
        ValueError: ``attempts`` is less than 1.
    """
    return Retrying(function, attempts, backoff)
