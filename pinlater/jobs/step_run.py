"""A running step, and whether an interruption has cut it off."""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext


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

    def __init__(self, context: WorkflowContext) -> None:
        self._context = context
        self.outer = StepRun.current(context)
        self.is_cut = False
        # An interruption in an unknown thread counts as one in this step, which may have started the thread: it is
        # better to run a step once too often.
        is_in_thread_of_job = get_ident() == context.thread
        self._unattributed = context._unattributed if is_in_thread_of_job else None  # noqa: SLF001 - they are a pair

    @staticmethod
    def current(context: WorkflowContext) -> StepRun | None:
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
