"""The interface between a running job and its worker."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from pinlater.jobs.enqueue_options import CallOptions, FollowUpOptions
from pinlater.jobs.step_context import StepContext

if TYPE_CHECKING:
    from pinlater.errors import JobFailed, JobInterrupted
    from pinlater.jobs.job import Job
    from pinlater.model.trace_context import RunTrace

_T = TypeVar("_T")


class JobContext(StepContext):
    """What a running job knows of its attempt, and can ask of its worker; the argument of ``Job.run``.

    Tests pass a ``FakeContext`` instead.

    Attributes:
        descriptor: address of the job, such as ``queue:s1:p1:42``; the same in all its attempts.
        queue: the queue that the job came from.
        attempt: number of this attempt, 1 for the first.
        attempts_allowed: total number of attempts, including the first.
        log: a logger that adds job, queue and attempt to every line.
        run_trace: the trace of this run, set by ``pinlater.tracing``; None if the run is not traced.
        interruption: the ``JobInterrupted``, ``JobSleeps``, ``JobCancelled`` or ``ClaimLost`` that this context has
            raised to end the attempt; None if there was none. A job that catches it and returns has not succeeded, and
            later calls of the context raise it again.
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
        """The trace context that was stored with the job, for ``pinlater.tracing``; empty if there was none."""
        return {}

    @property
    def previous_trace_context(self) -> Mapping[str, str]:
        """The trace context of the previous run of a rescheduled job; empty if none is known."""
        return {}

    @property
    @abstractmethod
    def is_draining(self) -> bool:
        """Whether the worker is shutting down; the next ``checkpoint`` will interrupt the job."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled; the next ``checkpoint``, step or sleep will raise ``JobCancelled``."""
        return False

    @abstractmethod
    def checkpoint(self, *, flush: bool = False) -> None:
        """Save the job's record: a later attempt starts with the fields as they are now.

        Calls are cheap: the record is sent at most once per ``heartbeat`` seconds of the class, or with ``flush``. If
        the server does not answer, the job waits for at most half a second, and a later checkpoint sends the record as
        it is then.

        With ``--threads`` or ``--concurrency``, the call does not wait for the server, so ``BodyTooLarge`` is raised by
        the next checkpoint. With ``flush``, it waits for the server, at most until the lease expires; with
        ``--concurrency``, that blocks the event loop and so all its jobs.

        Raises:
            JobInterrupted: the worker is shutting down: the record is saved, and the job continues in another process
                without spending an attempt. Do not catch it.
            JobCancelled, ClaimLost: the job was cancelled, or this worker no longer holds it. Do not catch them.
            BodyInvalid: the value of a field cannot be written as JSON.
            BodyTooLarge: the record is larger than the server allows.
        """

    @abstractmethod
    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report the job's progress, which ``pinlater lookup``, the dashboard and job handles show.

        Calls are cheap and never interrupt the job: the report is sent with the next checkpoint or, without one, at
        most once per ``heartbeat`` seconds of the class. The record is not saved. A report that was not sent waits for
        a later call: before long work that makes none, send it by ``checkpoint(flush=True)``.

        Args:
            done: amount of finished work, in any unit.
            total: amount of all work, in the same unit; None if unknown.
            note: a text to show beside the numbers.

        Raises:
            TypeError: an amount is not a number.
            ValueError: a number is negative or not finite.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold it.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def publish(self, **fields: Any) -> None:
        """Publish fields of your choice while the job runs: ``publish(stage="packing", boxes=3)``.

        ``pinlater lookup``, the dashboard and ``handle.status(include_body=True).published`` show them until the job
        has succeeded. A field keeps its value until it is published again; None removes it. Calls never interrupt the
        job: the fields are sent at once or, if others were sent within the last second, with the next save, such as
        that of ``checkpoint(flush=True)``.

        Args:
            **fields: values that JSON can carry; all published fields of a job may take up 4096 bytes together.

        Raises:
            ValueError: together they are larger.
            BodyInvalid: JSON cannot carry a value, or the job is a ``RawJob``, whose body cannot hold the fields.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def iterate(self, items: Iterable[_T], *, cursor: str = "cursor") -> Iterator[_T]:
        """Iterate over ``items`` from where the previous attempt stopped, with a checkpoint after each item.

        ::

            for path in context.iterate(sorted(folder.iterdir())):
                index(path)

        The job's field ``cursor`` counts finished items. An item counts as finished when the loop asks for the next
        one, not when it is left by ``break`` or an exception. So no item is skipped, and after a kill at most the work
        since the last checkpoint that was sent is repeated. Every attempt must pass the same items in the same order.

        Args:
            items: a sequence, which is indexed from the cursor on, or any iterable, which is read up to the cursor
                first.
            cursor: name of an ``int`` field; a second loop needs a second field.

        Raises:
            JobInterrupted: as in ``checkpoint``, after an item is finished.
            TypeError: the job has no such field.
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
        """Enqueue a follow-up job once; its descriptor is saved like the result of a step.

        ::

            report = context.step("build", build, self.month)
            context.enqueue(MailReport(path=report), name="mail", delay=3600)

        If the server's answer is lost, or the process dies before the descriptor is saved, the next attempt gets the
        follow-up that was stored instead of enqueueing another: for a day, and after that while the follow-up waits or
        runs. With several shards, the shard that stored it must answer; otherwise a second follow-up is enqueued.

        Args:
            job: the follow-up job.
            name: name of this follow-up. Each use of a name enqueues one job; uses are counted as in ``step``.
            options: keywords such as ``delay=60``: those of ``EnqueueOptions`` except ``status``.

        Returns:
            The follow-up's descriptor.

        Raises:
            JobInterrupted: the attempt was already interrupted.
            JobSleeps: the follow-up's queue does not exist. Without spending an attempt, the job waits until it does,
                for ``--unknown-after`` (3 days) at most; do not catch this.
            ValueError: an option is out of its range, or the name is too long.
            BodyInvalid: a field of ``job`` cannot be written as JSON, or this job is a ``RawJob``, whose body cannot
                record the follow-up.
            BodyTooLarge: as in ``checkpoint``.
            QueueNotFound: the job has waited that long for the queue.
            CallError, ServerError: no server has stored it. Do not catch this; the next attempt tries again.
        """

    @abstractmethod
    def call(
        self, job: Job[_T], *, name: str | None = None, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> _T:
        """Call another job, a *child*, and return its result when it has ended.

        ::

            size = context.call(Resize(photo=self.photo))

        The child is enqueued once per run. Until it has ended, this job sleeps without a process or a lease, for days
        if need be. Then ``run`` starts again from the top, and this call returns. The result has the type that the
        child's class declares; it is None if the class declares none.

        Args:
            job: the job to run. It and its own children are cancelled if this job is cancelled.
            name: name of the call, by default that of the job's class. Each use of a name calls one job; uses are
                counted as in ``step``.
            timeout: seconds to wait, counted from when the run first reaches this call; None: no limit.
            options: keywords such as ``queue="gpu"``, see ``CallOptions``.

        Raises:
            JobFailed: the child has failed for good, was cancelled (``JobWasCancelled``) or deleted (``JobGone``). If
                it is not caught, this job is given up at once, since other attempts would get the same error. If this
                job is then retried by hand, failed children are called again.
            JoinTimeout: the child has not ended in time; it continues. Later attempts get this error again, so a job
                that does not catch it is given up, too.
            JobSleeps: the child has not ended. This ends the attempt; do not catch it.
            JobInterrupted: the attempt was already interrupted.
            StepMismatch: the recorded call was of another job, or the result does not fit the child's class any more.
                As in ``step``, the job waits for fitting code before this is raised.
            BodyInvalid: a field of ``job`` cannot be written as JSON, or this job is a ``RawJob``, whose body cannot
                record the call.
            EnqueueRejected: the server refuses the child, for example because it is too large.
            CallError, ServerError: no server has stored it. Do not catch this; the next attempt tries again.
        """

    @overload
    def call_all(
        self,
        jobs: Iterable[Job[_T]],
        *,
        name: str,
        return_failures: Literal[False] = False,
        timeout: float | None = None,
        batch_size: int = 1000,
        **options: Unpack[CallOptions],
    ) -> list[_T]: ...

    @overload
    def call_all(
        self,
        jobs: Iterable[Job[_T]],
        *,
        name: str,
        return_failures: Literal[True],
        timeout: float | None = None,
        batch_size: int = 1000,
        **options: Unpack[CallOptions],
    ) -> list[_T | JobFailed]: ...

    @overload
    def call_all(
        self,
        jobs: Iterable[Job[_T]],
        *,
        name: str,
        return_failures: bool,
        timeout: float | None = None,
        batch_size: int = 1000,
        **options: Unpack[CallOptions],
    ) -> list[_T] | list[_T | JobFailed]: ...

    @abstractmethod
    def call_all(
        self,
        jobs: Iterable[Job[_T]],
        *,
        name: str,
        return_failures: bool = False,
        timeout: float | None = None,
        batch_size: int = 1000,
        **options: Unpack[CallOptions],
    ) -> list[_T] | list[_T | JobFailed]:
        """Call several jobs, and return their results when all have ended, in the order of the jobs.

        ::

            sizes = context.call_all([Resize(photo=photo) for photo in self.photos], name="resize")

        Otherwise as ``call``. The body of this job does not grow with the number of children. Every attempt must pass
        the same jobs: if they depend on something that changes, read it in a step first.

        Args:
            jobs: the jobs to run, of one or several classes. If there are none, the call returns at once.
            name: name of the call; uses of a name are counted as in ``step``.
            return_failures: return a ``JobFailed`` in place of the result of a job that failed, instead of raising one.
            timeout: seconds to wait, counted from when the run first reaches this call; None: no limit.
            batch_size: number of jobs to enqueue at a time. Between batches, this job saves once a second how many it
                has enqueued.
            options: as in ``call``, for each of the jobs.

        Raises:
            JobFailed: all have ended, and some have failed. This is the error of the first; as in ``call``.
            JoinTimeout: not all have ended in time; as in ``call``, which lists the other errors.
            ValueError: ``batch_size`` is less than 1.
        """

    @overload
    def wait_for(self, name: str, kind: type[_T], *, timeout: float | None = None) -> _T: ...

    @overload
    def wait_for(self, name: str, kind: Any = Any, *, timeout: float | None = None) -> Any: ...

    @abstractmethod
    def wait_for(self, name: str, kind: Any = Any, *, timeout: float | None = None) -> Any:
        """Wait for an event that somebody sends to this job, and return its value.

        ::

            approval = context.wait_for("approval", Approval, timeout=3 * 86400)

        ``handle.send("approval", Approval(by="ada"))`` sends one, as do ``pinlater send`` and the dashboard. Until it
        arrives, the job sleeps without a process or a lease. Then ``run`` starts again from the top, and this call
        returns. Events that arrive before the job waits for them are kept. The n-th use of a name gets the n-th event
        of that name, in every attempt; the next run of a rescheduled job continues after the last event of this run.

        Args:
            name: name of the event.
            kind: type of the value; by default what JSON decodes to: text, numbers, booleans, None, lists and dicts.
            timeout: seconds to wait, counted from when the run first reaches this call; None: no limit.

        Raises:
            EventTimeout: no event arrived in time. Later attempts get this error again, even if an event has arrived
                since: that is for the next use of the name. A job that does not catch it is given up.
            EventInvalid: the value does not fit ``kind``; the next use of the name gets the next event. Later attempts
                get this error again, unless their code has a ``kind`` that allows the value.
            ValueError: the name is too long for an event, or contains NUL; or ``timeout`` is not finite.
            JobSleeps: the event has not arrived. This ends the attempt; do not catch it.
            JobInterrupted: the attempt was already interrupted.
            BodyInvalid: the job is a ``RawJob``, whose body cannot record the wait.
            CallError, ServerError: no server has answered. Do not catch this; the next attempt tries again.
        """

    @abstractmethod
    def reschedule(self, *, after: float | None = None, at: datetime | float | None = None) -> None:
        """Run the job again if this attempt succeeds: it becomes PENDING instead of SUCCEEDED.

        The job keeps its descriptor, and its fields as they are at the end of this attempt. The next run has all
        attempts again, and no finished steps, sleeps or follow-ups. The call takes effect when the attempt ends: the
        last call counts, and none if the attempt fails. A periodic job runs at this time instead of its next tick;
        later ticks are unchanged.

        With ``reschedule(after=0)``, an endless workflow *continues as new*, which keeps its body small. The end of
        this run and the start of the next are one change in the store, so there is exactly one next run, whichever
        process is killed. If the process dies before that change, this run ends once more, from its finished steps.
        Events that no run has received yet are left for the next one.

        Args:
            after: seconds, counted from the end of this attempt.
            at: the time, instead of ``after``: epoch seconds, or a datetime (a naive one is local time). If it has
                passed, the job is due at once.

        Raises:
            ValueError: neither or both are given, or the time is not valid.
            BodyInvalid: the job is a ``RawJob``, whose body cannot record it.
        """

    @property
    @abstractmethod
    def scheduled_for(self) -> datetime | None:
        """The time for which this run was scheduled: the tick of a periodic job, or the time given to ``reschedule``.

        It is in the ``timezone`` of the class, by default UTC. None in the first run of a job that is not periodic.
        """
