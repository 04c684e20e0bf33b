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
    """Handed to ``Job.run``; tests pass a ``FakeContext`` instead.

    Attributes:
        descriptor: the job's address, ``queue:s1:p1:42``; the same for all its attempts.
        queue: the queue that the job came from.
        attempt: number of this attempt, 1 for the first.
        attempts_allowed: attempts in all.
        log: a logger that adds job, queue and attempt to every line.
        run_trace: the trace of this run, set by ``pinlater.tracing``; None if the run is not traced.
        interruption: the ``JobInterrupted``, ``JobSleeps``, ``JobCancelled`` or ``ClaimLost`` that this context has
            raised to end the attempt. Catching it changes nothing: the attempt is no success, and each later call
            raises it again.
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
        """Return the trace context of the previous run of a rescheduled job; empty if none is known."""
        return {}

    @property
    @abstractmethod
    def is_draining(self) -> bool:
        """Whether the worker wants to stop; the next ``checkpoint`` will interrupt the job."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled; the next ``checkpoint``, step or sleep will raise ``JobCancelled``."""
        return False

    @abstractmethod
    def checkpoint(self, *, flush: bool = False) -> None:
        """Save the job's record; a later attempt continues from here.

        Cheap: the record is sent at most once per ``heartbeat`` seconds of the class, or with ``flush``. If the server
        does not answer, the job waits for half a second at most; the latest record is sent when the server answers.

        With ``--threads`` or ``--concurrency`` the call does not wait for the server, so ``BodyTooLarge`` is raised by
        the next checkpoint. With ``flush`` it waits for the server, at most until the lease expires; with
        ``--concurrency`` that blocks the event loop, and so all its jobs.

        Raises:
            JobInterrupted: the worker drains; the record is saved, and the job continues elsewhere without spending an
                attempt.
            BodyInvalid: the value of a field cannot be written as JSON.
            BodyTooLarge: the record is larger than the server allows.
        """

    @abstractmethod
    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report the job's progress, shown by ``pinlater lookup``, the dashboard and job handles.

        Cheap, and never interrupts the job: the report is sent with the next checkpoint or, without one, at most once
        per ``heartbeat`` seconds of the class. The record is not saved.

        Args:
            done: amount of finished work, in any unit.
            total: amount of all work, in the same unit; None if unknown.
            note: a text to show beside the numbers.

        Raises:
            ValueError: a number is negative or not finite.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold it.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def publish(self, **fields: Any) -> None:
        """Show fields of the job's own choice, such as ``publish(stage="packing", boxes=3)``.

        ``pinlater lookup``, the dashboard and ``handle.status(include_body=True).published`` show them, until the job
        has succeeded. A field keeps its value until it is published anew; None removes it. Never interrupts the job:
        the fields are sent at once, or if that was done within the last second, with the next save.

        Args:
            **fields: values that JSON can carry; all published fields of a job have room for 4096 bytes.

        Raises:
            ValueError: there is no room for them.
            BodyInvalid: JSON cannot carry one, or the job is a ``RawJob``, whose body cannot hold them.
        """

    @abstractmethod
    def iterate(self, items: Iterable[_T], *, cursor: str = "cursor") -> Iterator[_T]:
        """Iterate over ``items`` from where the last attempt stopped, with a checkpoint after each item.

        ::

            for path in context.iterate(sorted(folder.iterdir())):
                index(path)

        The job's field ``cursor`` counts the finished items: it increases when the next item is requested, not when the
        loop is left. So no item is skipped, and after a kill at most the work since the last checkpoint that was sent
        is repeated. Every attempt must get the same items in the same order.

        Args:
            items: a sequence is indexed from the cursor on; any other iterable is read up to the cursor first.
            cursor: name of an ``int`` field; a second loop needs a second field.

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
        """Enqueue a follow-up job once; its descriptor is saved like the result of a step.

        ::

            report = context.step("build", build, self.month)
            context.enqueue(MailReport(path=report), name="mail", delay=3600)

        If the answer is lost, or the process dies before the descriptor is saved, the next attempt finds the follow-up
        that was stored: for a day, and after that as long as it waits or runs. With several shards, that needs the
        shard that stored it; if this shard does not answer, a second follow-up is enqueued rather than none.

        Args:
            job: the follow-up job.
            name: of this follow-up. Each use of a name enqueues one job; uses are counted as in ``step``.
            options: keywords such as ``delay=60``: those of ``EnqueueOptions`` except ``status``.

        Returns:
            The follow-up's descriptor.

        Raises:
            JobInterrupted: the attempt was interrupted before.
            ValueError: an option is out of its range, or the name is too long.
            BodyInvalid: a field of ``job`` is not JSON, or this job is a ``RawJob``, whose body cannot hold it.
            QueueNotFound: the follow-up's queue does not exist.
            CallError, ServerError: no server stored it; do not catch this, and the next attempt tries again.
        """

    @abstractmethod
    def call(
        self, job: Job[_T], *, name: str | None = None, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> _T:
        """Call another job, and return its result when it has ended.

        ::

            size = context.call(Resize(photo=self.photo))

        The job is enqueued once in a run. Until it has ended, this one sleeps: without process and lease, for days if
        need be. Then ``run`` begins from the top, and the call returns. The result has the type that the class of the
        job declares; without one, it is None.

        Args:
            job: what to run. It and its children are cancelled if this job is cancelled.
            name: of the call; uses of a name are counted as in ``step``. By default the name of the job's class.
            timeout: seconds from the first time that the run comes here.
            options: keywords such as ``queue="gpu"``, see ``CallOptions``.

        Raises:
            JobFailed: the job has failed for good, was cancelled (``JobWasCancelled``) or deleted (``JobGone``). If
                this is not caught, this job is given up: another attempt would find the same. A person who retries it
                then lets the failed ones be called again.
            JoinTimeout: the job has not ended in time; it goes on. In later attempts it is raised again.
            JobSleeps: this ends the attempt; do not catch it.
            JobInterrupted: the attempt was interrupted before.
            StepMismatch: it is another number of jobs than the first time, or a result does not fit the class by now.
            BodyInvalid: a field of ``job`` is not JSON, or this job is a ``RawJob``, whose body cannot hold it.
            EnqueueRejected: the job is too large, for example.
            CallError, ServerError: no server took it; do not catch this, and the next attempt tries again.
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
        """Call other jobs, and return their results when all have ended, in the order of the jobs.

        ::

            sizes = context.call_all([Resize(photo=photo) for photo in self.photos], name="resize")

        As ``call``. The record of this job does not grow with the number of the others. Each attempt has to give the
        same jobs: read what may change in a step before.

        Args:
            jobs: what to run, perhaps of several classes. None: nothing is waited for.
            name: of the call; uses of a name are counted as in ``step``.
            return_failures: return a ``JobFailed`` in the place of a job that has failed, instead of raising one.
            timeout: seconds from the first time that the run comes here.
            batch_size: number of jobs that are enqueued at once; the progress is saved every second, after a batch.
            options: as of ``call``, for each of the jobs.

        Raises:
            JobFailed: all have ended, and some have failed; the error is that of the first. As in ``call``.
            JoinTimeout: not all have ended in time; as in ``call``, like the other errors.
        """

    @overload
    def wait_for(self, name: str, kind: type[_T], *, timeout: float | None = None) -> _T: ...

    @overload
    def wait_for(self, name: str, kind: Any = Any, *, timeout: float | None = None) -> Any: ...

    @abstractmethod
    def wait_for(self, name: str, kind: Any = Any, *, timeout: float | None = None) -> Any:
        """Wait for an event, and return its value.

        ::

            approval = context.wait_for("approval", Approval, timeout=3 * 86400)

        ``handle.send("approval", Approval(by="ada"))`` sends one, as do ``pinlater send`` and the dashboard. Until it
        comes, this job sleeps without process and lease; then ``run`` begins from the top, and the call returns. Events
        that came before the job waits are kept. The n-th use of a name gets the n-th event of that name, in all
        attempts alike; the next run of a rescheduled job goes on after the last one.

        Args:
            name: of the event.
            kind: type of the value, which is sent as JSON; left out, it consists of JSON's types.
            timeout: seconds from the first time that the run comes here.

        Raises:
            EventTimeout: no event came in time. In later attempts it is raised again, whatever comes; an event that
                comes later is for the next use of the name. If this is not caught, the job is given up.
            EventInvalid: the value does not fit ``kind``; the next use of the name gets the next event.
            ValueError: the name is so long that no event can have it.
            JobSleeps: this ends the attempt; do not catch it.
            JobInterrupted: the attempt was interrupted before.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold what it waits for.
            CallError, ServerError: no server has answered; do not catch this, and the next attempt tries again.
        """

    @abstractmethod
    def reschedule(self, *, after: float | None = None, at: datetime | float | None = None) -> None:
        """Run the job again if this attempt succeeds: it becomes PENDING instead of SUCCEEDED.

        The job keeps its descriptor, and its record as it is at the end of this attempt. The next run has all attempts
        again, and no finished steps, sleeps or follow-ups. The call itself does nothing yet: the last call of an
        attempt counts, and none if the attempt fails. A periodic job runs then instead of at its next tick; the later
        ticks are unchanged.

        ``reschedule(after=0)`` *continues as new*: a workflow without end keeps its body small by it. The end of this
        run and the beginning of the next one are one change in the store, so there is exactly one next run, whatever
        is killed; if the process dies before that change, the run ends again, from its finished steps. Events that no
        run has got yet wait for the next one.

        Args:
            after: seconds, counted from the end of this attempt.
            at: or a point in time: epoch seconds, or a datetime (a naive one is local time). One in the past is due at
                once.

        Raises:
            ValueError: none or both of the two are given, or the time is not valid.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold it.
        """

    @property
    @abstractmethod
    def scheduled_for(self) -> datetime | None:
        """The time that this run was planned for: the tick of a periodic job, or the time given to ``reschedule``.

        In the class's ``timezone``, UTC by default. None in the first run of a job that is not periodic.
        """
