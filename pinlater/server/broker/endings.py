"""Calls that wait until jobs have finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from pinlater.model.descriptor import JobDescriptor, queue_of
from pinlater.server.broker.parking import Caller, ParkedCall

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.1, 1.0
"""First and longest pause between a waiting call's polls for jobs that end at other servers; each doubles the last."""

_LONELY_POLL_SECONDS = 10.0
"""The pause where there is no other server."""


class Endings:
    """Wakes calls that wait until jobs have finished.

    Args:
        is_lonely: whether no other server ends jobs.
    """

    def __init__(self, *, is_lonely: bool) -> None:
        self._first, self._longest = (
            (_LONELY_POLL_SECONDS, _LONELY_POLL_SECONDS) if is_lonely else (_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS)
        )
        self._waits: dict[str, defaultdict[str, set[_EndWait]]] = {}  # by queue, since most queues have none
        self._is_stopping = False

    def record(self, queue: str, jobs: Iterable[JobDescriptor]) -> None:
        """Wake the calls that wait for these jobs of a queue, which may have finished."""
        if queue in self._waits:
            self._wake(self._waits[queue], map(str, jobs))

    def record_some(self, queue: str) -> None:
        """Wake all calls that wait for jobs of a queue: some, it is unknown which, may have finished or be gone."""
        if queue in self._waits:
            self._wake(self._waits[queue], list(self._waits[queue]))

    def _wake(self, waits: Mapping[str, set[_EndWait]], jobs: Iterable[str]) -> None:
        for job in jobs:
            for wait in waits.get(job, ()):
                wait.is_news = True
                wait.wake()

    async def wait(
        self,
        jobs: Sequence[str],
        unfinished: Callable[[Sequence[str]], Awaitable[list[str]]],
        seconds: float,
        caller: Caller,
    ) -> None:
        """Return once all of the jobs have finished, or are gone, or after ``seconds``, or when the caller cannot wait.

        Args:
            jobs: descriptors of the jobs, each once.
            unfinished: returns which of the given jobs have not finished.
            seconds: how long to wait at most.
            caller: the connection of the call.
        """
        if caller.cannot_wait or self._is_stopping:
            return
        wait = _EndWait(caller, seconds)
        caller.park(wait)
        for job in jobs:
            self._waits.setdefault(queue_of(job), defaultdict(set))[job].add(wait)
        left, pause = jobs, self._first
        try:
            while (left := await unfinished(left)) and not (wait.is_over or caller.is_gone):
                if not wait.is_news:
                    await wait.at_most(pause)
                    pause = min(2 * pause, self._longest)
                wait.is_news = False
        finally:
            caller.unpark(wait)
            wait.end()
            self._forget(wait, jobs)

    def _forget(self, wait: _EndWait, jobs: Iterable[str]) -> None:
        for job in jobs:
            queue = queue_of(job)
            waits = self._waits[queue]
            waits[job].discard(wait)
            if not waits[job]:
                del waits[job]
            if not waits:
                del self._waits[queue]

    def stop(self) -> None:
        """Answer all waiting calls, and let none wait any more."""
        self._is_stopping = True
        for wait in {wait for jobs in self._waits.values() for waits in jobs.values() for wait in waits}:
            wait.end()


class _EndWait(ParkedCall):
    """A call that waits for the end of jobs.

    Attributes:
        is_news: whether one of them may have ended since the last check.
    """

    __slots__ = ("is_news",)

    def __init__(self, caller: Caller, seconds: float) -> None:
        super().__init__(caller, seconds)
        self.is_news = False
