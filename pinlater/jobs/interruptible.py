"""A context whose interruption is final, even if the job swallows the exception."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from threading import Lock, current_thread, get_ident
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self
from weakref import WeakSet

from pinlater.errors import JobInterrupted, StepMismatch, interruption_in
from pinlater.jobs.awaited_call import refuse_await
from pinlater.jobs.context import JobContext
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.jobs.waiting import JobWaits
from pinlater.model.body_metadata import SagaMark

if TYPE_CHECKING:
    from pinlater.jobs.unawaited_steps import UnawaitedSteps

_lock = Lock()
"""One for all contexts, since it is taken only when an attempt ends, and briefly."""


class InterruptibleContext(JobContext):
    """A context that remembers its interruption, and raises it again at every later call.

    A job may swallow it: by ``gather(..., return_exceptions=True)``, by ``suppress(BaseException)``, by ``return`` in a
    ``finally``, or in a pool whose futures nobody checks.

    Attributes:
        thread: identifies the thread that runs the job.
        saga_failure: the exception that has left a saga which is neither finished nor undone; it fails the attempt even
            if the job catches it.
        unawaited_steps: the steps that have to be awaited, until they have ended; None if there was none.
        reached_to_undo: finished steps of sagas that this attempt has passed.
    """

    thread: int
    saga_failure: BaseException | None = None
    unawaited_steps: UnawaitedSteps | None = None
    reached_to_undo: frozenset[str] = frozenset()
    _waiting: WeakSet[object] | None = None
    """Tasks and threads of the job that wait for messages; None if there are none."""
    _unattributed = 0
    """Number of interruptions raised in other threads of the job, outside of any known step."""

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
                self._waiting = WeakSet()
            self._waiting.add(_current_task())
        self.interrupt(why)
        return why

    def go_on_to_wait(self) -> None:
        """Raise the interruption again, unless it only says that another task or thread of the job waits.

        ``run`` itself cannot go on then: it may have collected the exceptions of those that wait, as ``gather`` does.
        """
        waiting = self._waiting or ()
        if not isinstance(self.interruption, JobWaits) or _current_task() in waiting or self._is_called_by_run():
            self.go_on()

    @abstractmethod
    def _is_called_by_run(self) -> bool:
        """Return whether ``run`` itself makes this call, and no other task or thread of the job."""

    def go_on(self) -> None:
        """Raise the interruption again if there is one."""
        found = self.interruption
        if found is not None:
            self._mark_steps_cut()
            raise found.again() from found.__cause__

    def check_awaited(self) -> TypeError | None:
        """Return the error of a run that has returned although a step was never awaited, so has not run; else None."""
        return self.unawaited_steps.check(self.log) if self.unawaited_steps else None

    def new_saga_mark(self) -> SagaMark:
        """Return the mark of a job that has nothing to undo yet."""
        return SagaMark()

    @abstractmethod
    def server_seconds(self) -> float:
        """Return epoch seconds of the server's clock."""

    @abstractmethod
    def begin(self, step: str = "") -> bool:
        """Check that the job may begin something new whose end will be recorded.

        Args:
            step: name under which a step is recorded; empty: it is no step.

        Returns:
            Whether the job has given up, and runs a step that had failed once more, since what is to be undone comes
            after it.

        Raises:
            SagaUndone: the job has given up, and begins nothing new.
        """

    @abstractmethod
    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context manager in which ``StepTimeout`` is raised when the deadline of a step comes."""

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


class StepRun:
    """A running step, entered around its function.

    A step whose function was cut off by an interruption is not finished, even if the function returns as if nothing
    had happened, or raises something else: the interruption is raised again in its place.

    Attributes:
        outer: the step that runs this one; None if there is none.
        is_cut: whether the context has raised an interruption within the function.
    """

    __slots__ = ("_context", "_token", "_unattributed", "is_cut", "outer")

    _token: Token[StepRun | None]

    def __init__(self, context: InterruptibleContext) -> None:
        self._context = context
        self.outer = StepRun.current(context)
        self.is_cut = False
        # An interruption in an unknown thread counts as one in this step, which may have started the thread: it is
        # better to run a step once too often.
        is_in_thread_of_job = get_ident() == context.thread
        self._unattributed = context._unattributed if is_in_thread_of_job else None  # noqa: SLF001 - they are a pair

    @staticmethod
    def current(context: InterruptibleContext) -> StepRun | None:
        """Return the innermost step that the caller runs in; None if there is none."""
        found = _running.get()
        return found if found is not None and found._context is context else None  # noqa: SLF001

    def __enter__(self) -> Self:
        self._token = _running.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _running.reset(self._token)
        if self._was_cut and (error is None or isinstance(error, Exception)):
            self._context.go_on()

    @property
    def _was_cut(self) -> bool:
        return self.is_cut or (self._unattributed is not None and self._unattributed != self._context._unattributed)  # noqa: SLF001


_running: ContextVar[StepRun | None] = ContextVar("step that runs", default=None)


def _current_task() -> object:
    """Return the calling task; outside of tasks, the calling thread."""
    import asyncio  # here: test suites without jobs load this module with the plugin, but need no asyncio

    try:
        return asyncio.current_task() or current_thread()
    except RuntimeError:  # no loop runs here
        return current_thread()


def swallowed_interruption(context: JobContext, error: BaseException | None) -> JobInterrupted | None:
    """Return the interruption that a job has swallowed; None if it has not swallowed any.

    Args:
        context: context of the attempt.
        error: what the job raised instead; None: nothing.
    """
    found = context.interruption
    if found is None or (error is not None and interruption_in(error) is not None):
        return None
    found.was_swallowed = True
    return found
