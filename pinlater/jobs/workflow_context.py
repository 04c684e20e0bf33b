"""What contexts do alike in workers and in tests: they record what a run has done, and end the attempt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack

from pinlater.errors import BodyInvalid, ClaimLost, JobCancelled, JobError, JobInterrupted, SagaUndone, StepMismatch
from pinlater.jobs.awaited_call import refuse_await
from pinlater.jobs.child_calls import DEFAULT_BATCH, ChildCalls, Joined
from pinlater.jobs.context import JobContext
from pinlater.jobs.enqueue_options import CallOptions
from pinlater.jobs.event_waits import EventWaits
from pinlater.jobs.job import Job, RawJob, not_a_job
from pinlater.jobs.lazy_attribute import lazy
from pinlater.jobs.message_link import MessageLink
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.options import JobOptions
from pinlater.jobs.outside_steps import OutsideSteps
from pinlater.jobs.published import publish
from pinlater.jobs.run_frame import is_called_by_run
from pinlater.jobs.run_keys import key_of
from pinlater.jobs.saga import Saga
from pinlater.jobs.settled import SettledErrors
from pinlater.jobs.sleeping import check_timeout, moment_after, sleep_until
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.jobs.step_records import StepRecords
from pinlater.jobs.step_run import StepRun
from pinlater.jobs.steps import Steps
from pinlater.jobs.waiting import JobWaits
from pinlater.jobs.waiting_tasks import WaitingTasks
from pinlater.model.body_metadata import BodyMetadata, SagaMark
from pinlater.model.status import SAGAS_UNDONE

if TYPE_CHECKING:
    from pinlater.jobs.unawaited_steps import UnawaitedSteps

_T = TypeVar("_T")

_lock = Lock()
"""One for all contexts, since it is taken only when an attempt ends, and briefly."""

_RESULTS = "results outside the body"
"""Key under which a job waits if some of these are missing; it is not the name of a step."""


class WorkflowContext(JobContext):
    """A context that records what a run has done, and whose interruption is final.

    The record is in the metadata of the job's body. A job may swallow the interruption: by ``gather(...,
    return_exceptions=True)``, by ``suppress(BaseException)``, by ``return`` in a ``finally``, or in a pool whose
    futures nobody checks. So it is remembered, and raised again at every later call.

    Attributes:
        thread: identifies the thread that runs the job.
        saga_failure: the exception that has left a saga which is neither finished nor undone; it fails the attempt even
            if the job catches it.
        unawaited_steps: the steps that have to be awaited, until they have ended; None if there was none.
        reached_to_undo: finished steps of sagas that this attempt has passed.
    """

    _metadata: BodyMetadata
    thread: int
    saga_failure: BaseException | None = None
    unawaited_steps: UnawaitedSteps | None = None
    reached_to_undo: frozenset[str] = frozenset()
    _waiting: WaitingTasks | None = None
    _settled = lazy(lambda _: SettledErrors())
    _sleep_names = lazy(lambda _: NameCounter())
    _follow_up_names = lazy(lambda _: NameCounter())
    _unattributed = 0
    """Number of interruptions raised in other threads of the job, outside of any known step."""

    # The end of the attempt

    def interrupt(self, why: JobInterrupted) -> JobInterrupted:
        """End the attempt and return ``why`` to raise; later calls raise it again."""
        self.note_interruption(why)
        self._mark_steps_cut()
        return why

    def note_interruption(self, why: JobInterrupted) -> None:
        """Record that the attempt ends; of several sleeps the longest counts."""
        with _lock:
            if self.interruption is None or why.weight > self.interruption.weight:
                self.interruption = why
            elif isinstance(why, JobWaits) and isinstance(self.interruption, JobWaits):
                self.interruption = self.interruption.joined(why)

    def begin_wait(self, why: JobWaits) -> JobWaits:
        """End the attempt and return ``why`` to raise; other tasks and threads of the job may begin to wait, too.

        Raises:
            TypeError: the job awaits the call of the context that waits.
        """
        refuse_await()
        with _lock:
            if self._waiting is None:
                self._waiting = WaitingTasks()
            self._waiting.add_caller()
        self.interrupt(why)
        return why

    def go_on_to_wait(self) -> None:
        """Raise the interruption again, unless it only says that another task or thread of the job waits.

        ``run`` itself cannot go on then: it may have collected the exceptions of those that wait, as ``gather`` does.
        """
        is_of_another = isinstance(self.interruption, JobWaits) and not (self._waiting and self._waiting.have_caller())
        if not is_of_another or is_called_by_run(self._running_job()):
            self.go_on()

    def go_on(self) -> None:
        """Raise the interruption again if there is one."""
        found = self.interruption
        if found is not None:
            self._mark_steps_cut()
            raise found.again() from found.__cause__

    def check_awaited(self) -> TypeError | None:
        """Return the error of a run that has returned although a step was never awaited, so has not run; else None."""
        return self.unawaited_steps.check(self.log) if self.unawaited_steps else None

    def refuse_record(self, step: str, error: StepMismatch) -> NoReturn:
        """End the attempt because the code does not fit a recorded step.

        Args:
            step: key of the record.
            error: says what does not fit.
        """
        del step
        raise error

    def _mark_steps_cut(self) -> None:
        """Mark the steps around this call as cut off."""
        run = StepRun.current(self)
        if run is None and get_ident() != self.thread:
            self._unattributed += 1  # a thread of a pool, which a step may have started
        while run is not None:
            run.is_cut, run = True, run.outer

    # Steps and sleeps

    def _run_step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        self._refuse_raw("the results of steps")
        self._record_progress()
        return self._steps.run(name, function, args, kwargs)

    async def let_steps_end(self) -> None:
        """Wait for steps that run beside what has interrupted the job: cut off, they would run once more."""
        if "_steps" in self.__dict__ and not isinstance(self.interruption, JobCancelled | ClaimLost):
            await self._steps.let_end()

    def sleep_for(self, seconds: float, *, name: str) -> None:
        """Sleep without a process; see ``JobContext.sleep_for``."""
        self.sleep_until(moment_after(self, seconds), name=name)

    def sleep_until(self, moment: datetime | float, *, name: str) -> None:
        """Sleep until a moment; see ``JobContext.sleep_until``."""
        self._refuse_raw("sleeps")
        sleep_until(self, self._metadata.sleeps, self._sleep_names.next(name), moment, self._save_surely)

    def key(self, name: str) -> str:
        """Return an idempotency key; see ``JobContext.key``."""
        self.go_on()
        run_id = self._metadata.run_id
        if not run_id:
            run_id = self._new_run_id()
            if not isinstance(self._running_job(), RawJob):
                self._metadata.run_id = run_id
                self._save_surely()
        return key_of(run_id, name)

    # Other jobs and events

    def call(
        self, job: Job[_T], *, name: str | None = None, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> _T:
        """Call another job; see ``JobContext.call``."""
        if not isinstance(job, Job):
            raise not_a_job(job)
        joined = self._join([job], name or job.job_options.name, timeout, DEFAULT_BATCH, options)
        result: _T = joined.results()[0]
        return result

    def call_all(
        self,
        jobs: Iterable[Job[Any]],
        *,
        name: str,
        return_failures: bool = False,
        timeout: float | None = None,
        batch_size: int = DEFAULT_BATCH,
        **options: Unpack[CallOptions],
    ) -> list[Any]:
        """Call other jobs; see ``JobContext.call_all``."""
        joined = self._join(jobs, name, timeout, batch_size, options)
        return joined.ends if return_failures else joined.results()

    def _join(
        self, jobs: Iterable[Job[Any]], name: str, timeout: float | None, batch_size: int, options: CallOptions
    ) -> Joined:
        self._refuse_raw("calls of other jobs")
        check_timeout(timeout)
        self._record_progress()
        return self._calls.join(jobs, name, timeout=timeout, batch_size=batch_size, options=options)

    def ends_of_children(self, name: str, count: int, before_wait: Callable[[], object]) -> list[int]:
        """Return how the children that a client enqueued for this job have ended, once all have.

        Args:
            name: name of their messages.
            count: number of children, including those that are yet to be enqueued.
            before_wait: called before the job waits for them.

        Returns:
            A ``MessageKind`` for each.
        """
        return [message.kind for message in self._calls.ends(name, count, before_wait)]

    def wait_for(self, name: str, kind: Any = Any, *, timeout: float | None = None) -> Any:
        """Wait for an event; see ``JobContext.wait_for``."""
        self._refuse_raw("events")
        check_timeout(timeout)
        self._record_progress()
        return self._events.wait_for(name, kind, timeout)

    @lazy
    def _calls(self) -> ChildCalls:
        return ChildCalls(self, self._metadata, self._link, self._save_surely, self._settled)

    @lazy
    def _events(self) -> EventWaits:
        return EventWaits(self, self._metadata, self._link, self._save_surely, self._settled)

    def gives_up_after(self, error: BaseException) -> bool:
        """Return whether ``error`` is what a call or a wait has ended with, so that every attempt would fail alike.

        If so, save a record with which a retry by hand tries again, unless there are sagas to undo.
        """
        if "_settled" not in self.__dict__ or not self._settled.reopen(error):
            return False
        if self.saga_mark is None:
            with suppress(JobInterrupted, JobError):  # the claim was lost, or the body is too large
                self._save_surely()
        return True

    def since(self, patch: str) -> bool:
        """Return whether this run follows a patch; see ``JobContext.since``."""
        self._refuse_raw("patches")
        self.go_on()
        patches, metadata = self._metadata.patches, self._metadata
        if patch not in patches:
            patches[patch] = not (
                self._steps.names.is_ahead(self._steps.records.last_first())
                or self._steps.names.is_ahead(reversed(metadata.tries))
                or self._sleep_names.is_ahead(reversed(metadata.sleeps))
                or self._follow_up_names.is_ahead(reversed(metadata.enqueued))
                or (metadata.calls and self._calls.names.is_ahead(reversed(metadata.calls)))
                or (metadata.events and self._events.is_ahead)
            )
        return patches[patch]

    def publish(self, **fields: Any) -> None:
        """Publish fields; see ``JobContext.publish``."""
        self._refuse_raw("published fields")
        publish(self._metadata.published, fields)

    def saga(self) -> Saga:
        """Return a saga; see ``JobContext.saga``."""
        self._refuse_raw("a saga")
        return Saga(self, self._metadata, self._steps)

    def new_saga_mark(self) -> SagaMark:
        """Return the mark of a job that has nothing to undo yet."""
        return SagaMark()

    @property
    def saga_mark(self) -> SagaMark | None:
        """What has to be undone if the job gives up."""
        return self._metadata.saga

    def begin(self, step: str = "") -> bool:
        """Check that the job may begin something new whose end will be recorded; an undo may itself begin something.

        Args:
            step: name under which a step is recorded; empty: it is no step.

        Returns:
            Whether the job has given up, and runs a step that had failed once more, since what is to be undone comes
            after it.

        Raises:
            SagaUndone: the job has given up, and begins nothing new.
        """
        mark = self.saga_mark
        if mark is None or not mark.why or StepRun.current(self) is not None:
            return False
        if step in mark.passed and not self._has_reached_all(mark):
            return True
        raise SagaUndone(f"the job gave up, and {SAGAS_UNDONE}: {mark.why}")

    def begin_unless_something_to_undo_is_ahead(self) -> None:
        """Raise ``SagaUndone`` if the job has given up, and this attempt has passed all steps that it is to undo."""
        mark = self.saga_mark
        if mark is not None and mark.why and self._has_reached_all(mark):
            self.begin()

    def _has_reached_all(self, mark: SagaMark) -> bool:
        return self.reached_to_undo.issuperset(mark.steps)

    @lazy
    def _steps(self) -> Steps:
        return Steps(self, self._new_records(), lambda: self._running_options, self._save_surely, self._save_awaited)

    def _new_records(self) -> StepRecords:
        try:
            outside = OutsideSteps(self._metadata, self._link.read)
        except StepMismatch as error:
            self.refuse_record(_RESULTS, error)
        self._metadata.accept_record(_RESULTS)
        return StepRecords(self._metadata, outside)

    def _refuse_raw(self, what: str) -> None:
        if isinstance(self._running_job(), RawJob):
            raise BodyInvalid(f"the body of a RawJob has no place for {what}; use a Job")

    # What differs between workers and tests

    @abstractmethod
    def _running_job(self) -> Job:
        """Return the job that runs."""

    @abstractmethod
    def _save_surely(self) -> object:
        """Save the job's body, even if that takes a while."""

    @abstractmethod
    async def _save_awaited(self) -> object:
        """Save the job's body without blocking the event loop."""

    @property
    @abstractmethod
    def _running_options(self) -> JobOptions:
        """The options of the job that runs."""

    @abstractmethod
    def _new_run_id(self) -> str:
        """Return the id of this run."""

    @property
    @abstractmethod
    def _link(self) -> MessageLink:
        """What enqueues children and reads messages."""

    @abstractmethod
    def server_seconds(self) -> float:
        """Return epoch seconds of the server's clock."""

    @abstractmethod
    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context manager in which ``StepTimeout`` is raised when the deadline of a step comes."""

    def _record_progress(self) -> None:
        """Note that the job makes progress."""
