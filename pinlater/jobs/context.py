"""The interface between a running job and its worker."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from pinlater.jobs.enqueue_options import FollowUpOptions

if TYPE_CHECKING:
    from pinlater.errors import JobInterrupted
    from pinlater.jobs.job import Job
    from pinlater.model.trace_context import RunTrace

_P = ParamSpec("_P")
_T = TypeVar("_T")


class JobContext(ABC):
    """Handed to ``Job.run``; tests pass a ``FakeContext`` instead.

    Attributes:
        descriptor: the job's address, ``queue:s1:p1:42``; the same for all its attempts.
        queue: queue that it came from.
        attempt: number of this attempt, 1 for the first.
        attempts_allowed: attempts in all.
        log: a logger that puts job, queue and attempt on every line.
        run_trace: the trace of this run, which ``pinlater.tracing`` sets; None: nobody traces it.
        interruption: the ``JobInterrupted``, ``JobSleeps`` or ``ClaimLost`` that this context has raised to end the
            attempt. It holds whatever the job makes of it: the attempt is no success, and each later call raises again.
    """

    descriptor: str
    queue: str
    attempt: int
    attempts_allowed: int
    log: logging.LoggerAdapter[logging.Logger]
    run_trace: RunTrace | None = None
    interruption: JobInterrupted | None = None

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job is given up if this attempt fails."""
        return self.attempt >= self.attempts_allowed

    @property
    def trace_context(self) -> Mapping[str, str]:
        """Return the trace context that came with the job, for ``pinlater.tracing``; empty if none did."""
        return {}

    @property
    def previous_trace_context(self) -> Mapping[str, str]:
        """Return the trace context of the run before, of a job that was rescheduled; empty if none is known."""
        return {}

    @property
    @abstractmethod
    def is_draining(self) -> bool:
        """Whether the worker wants to stop; the next ``checkpoint`` will interrupt the job."""

    @abstractmethod
    def checkpoint(self, *, flush: bool = False) -> None:
        """Save the job's record, so that a later attempt goes on from here.

        Cheap: it is really sent at most once per ``heartbeat`` seconds of the class, or with ``flush``. While the
        server hangs, a job is held up for half a second at most, and what it saves later goes when the server answers.

        In a worker with ``--threads`` or ``--concurrency`` it is handed over and does not wait for the server, so
        ``BodyTooLarge`` is raised by the next one. With ``flush`` it waits, until the lease is over if there is no
        server; with ``--concurrency`` the event loop waits, and all jobs with it.

        Raises:
            JobInterrupted: the worker drains; the record is saved and the job goes on elsewhere, no attempt spent.
            BodyInvalid: a field holds something that JSON cannot carry.
            BodyTooLarge: the record is larger than the server takes.
        """

    @overload
    def step(
        self, name: str, function: Callable[_P, Coroutine[Any, Any, _T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Coroutine[Any, Any, _T]: ...

    @overload
    def step(self, name: str, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run one step of a workflow, once: its result is saved, and later attempts get it without a run.

        ::

            pages = context.step("list", list_pages, self.site)
            for page in pages:
                context.step("convert", convert, page)

        The result has to be JSON (text, numbers, booleans, None, lists, dicts). A step that was running when
        its process died runs again.

        A name may be used more than once: the n-th use of a name within an attempt is a step of its own, kept as
        ``convert``, ``convert#2`` and so on. So the n-th use of a name has to mean the same in every attempt. Let the
        turns of loops, and what is done under a name, depend on the record and on what steps returned; clocks, chance
        and the world are asked within steps. Uses of one name do not touch those of another: a branch whose steps
        have names of their own may be taken or left, and be added by a deployment. Threads that take steps at the
        same time, and steps within a step, need names of their own.

        The step of a coroutine function is awaited, and several can be under way at once::

            await asyncio.gather(*[context.step("fetch", fetch, url) for url in self.urls])

        Their uses are counted in the order of the calls of ``step``. Give a step attempts of its own with
        ``pinlater.retrying``.

        Args:
            name: of the step, without a ``#number`` at its end.
            function: what to do; a coroutine function, if the result is to be awaited.
            *args: for it.
            **kwargs: for it.

        Raises:
            JobInterrupted: as ``checkpoint`` does, before the step starts.
            JobSleeps: to end this attempt, when a ``retrying`` step has failed; let it pass.
            ValueError: the name ends in ``#`` and a number.
            BodyInvalid: the result is not JSON, or the job is a ``RawJob``, whose body has no place for it.
            BodyTooLarge: as of ``checkpoint``.
        """
        return self._run_step(name, function, args, kwargs)

    @abstractmethod
    def _run_step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any: ...

    @abstractmethod
    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the job has come, for those who look it up.

        Cheap, and never interrupts: it is kept with the job, and sent with the next checkpoint or, without one, at
        most once per ``heartbeat`` seconds of the class. It does not save the record.

        Args:
            done: work that is done, in any unit.
            total: all of the work, in the same unit; None if that is not known.
            note: what else there is to say.

        Raises:
            ValueError: a number is negative or not finite.
            BodyInvalid: the job is a ``RawJob``, whose body has no place for it.
            BodyTooLarge: as of ``checkpoint``.
        """

    @abstractmethod
    def sleep_for(self, seconds: float, *, name: str) -> None:
        """Give the process back, and go on in ``seconds``, be it in another process or after a deployment.

        The record is saved and the job is pending again, no attempt spent. When it is due, ``run`` begins anew and
        passes the sleep that is over; what comes before it belongs into steps::

            context.step("invite", invite, self.user_id)
            context.sleep_for(3 * 86400, name="time to answer")
            context.step("remind", remind, self.user_id)

        A worker in burst mode does not wait for it.

        Args:
            seconds: counted from the first time that this line is reached.
            name: of this sleep. Each use of a name is slept once; they are counted as those of ``step`` are.

        Raises:
            JobSleeps: to end this attempt; let it pass.
            ValueError: ``seconds`` is negative or endless.
            BodyInvalid: the job is a ``RawJob``, whose body has no place for it; or as of ``checkpoint``.
            BodyTooLarge: as of ``checkpoint``.
        """

    @abstractmethod
    def sleep_until(self, moment: datetime | float, *, name: str) -> None:
        """Do as ``sleep_for``, up to a moment; one that has passed does not wait.

        Args:
            moment: epoch seconds, or a datetime (a naive one is local time).
            name: as of ``sleep_for``.

        Raises:
            JobSleeps: as ``sleep_for`` does; and its other errors.
        """

    @abstractmethod
    def iterate(self, items: Iterable[_T], *, cursor: str = "cursor") -> Iterator[_T]:
        """Go through ``items`` from where the last attempt left off, with a checkpoint after each.

        ::

            for path in context.iterate(sorted(folder.iterdir())):
                index(path)

        The job's field ``cursor`` counts the finished items: it moves on when the next item is asked for, not when
        the loop is left. So nothing is skipped, and a process that is killed repeats at most what it did since the
        checkpoint that was sent last. Every attempt has to get the same items in the same order.

        Args:
            items: sequences are entered at the cursor; other iterables are read up to there first.
            cursor: name of the field, an ``int``; a second loop needs a second one.

        Raises:
            JobInterrupted: as ``checkpoint`` does, after an item is finished.
            TypeError: the record has no such field.
            ValueError: the field is negative.
        """

    @abstractmethod
    def enqueue(
        self,
        job: Job,
        *,
        name: str,
        **options: Unpack[FollowUpOptions],
    ) -> str:
        """Enqueue a follow-up job, once: its descriptor is kept like the result of a step.

        ::

            report = context.step("build", build, self.month)
            context.enqueue(MailReport(path=report), name="mail", delay=3600)

        Should the answer be lost, or the process die between sending it and keeping that, the next attempt finds the
        first one: for a day, and after that as long as it waits or runs. Of several shards, the one that took it has
        to answer then; otherwise there is a second one rather than none.

        Args:
            job: what to do.
            name: of this follow-up. Each use of a name enqueues one; they are counted as those of ``step`` are.
            options: keywords such as ``delay=60``: those of ``EnqueueOptions``, but for ``status``.

        Returns:
            The follow-up's descriptor.

        Raises:
            JobInterrupted: the attempt was ended before.
            ValueError: an option is out of its range, or the name too long.
            BodyInvalid: a field of ``job`` is not JSON, or this job is a ``RawJob``, whose body has no place for it.
            QueueNotFound: the follow-up's queue was not created.
            CallError, ServerError: no server took it; let it pass, and the next attempt tries again.
        """

    @abstractmethod
    def reschedule(self, *, after: float | None = None, at: datetime | float | None = None) -> None:
        """Let the job run again, if this attempt succeeds: it is pending once more then, instead of SUCCEEDED.

        It is the same job, with the same descriptor and its record as it is at the end of this attempt. Its next run
        begins afresh: all attempts, no steps, sleeps or follow-ups done. Nothing happens at the call itself; the
        last one of an attempt counts, and none if the attempt fails. For a periodic job it takes the place of the next
        tick; those after that come as ever.

        Args:
            after: seconds, counted from the end of this attempt.
            at: or a moment: epoch seconds, or a datetime (a naive one is local time). One in the past is due at once.

        Raises:
            ValueError: not one of the two is given, or it is no time that can come.
            BodyInvalid: the job is a ``RawJob``, whose body has no place for it.
        """

    @property
    @abstractmethod
    def scheduled_for(self) -> datetime | None:
        """The moment that this run was planned for: the tick of a periodic job, or what ``reschedule`` said.

        On the clock of the class's ``timezone``, otherwise in UTC. None in the first run of any other job.
        """
