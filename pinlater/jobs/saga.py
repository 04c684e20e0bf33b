"""Sagas: steps that are undone, the last one first, if the job gives up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from pinlater.errors import JobTimeout, UndoFailed, interruption_in
from pinlater.jobs.step_functions import is_async, takes_result
from pinlater.jobs.step_records import StepCall
from pinlater.jobs.steps import Steps
from pinlater.model.body_metadata import BodyMetadata

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext

_T = TypeVar("_T")


class Saga:
    """A part of a workflow whose steps are undone if the job gives up; see ``JobContext.saga``.

    Args:
        context: context of the attempt.
        metadata: records what is to be undone.
        steps: runs the steps.
    """

    def __init__(self, context: WorkflowContext, metadata: BodyMetadata, steps: Steps) -> None:
        self._context = context
        self._metadata = metadata
        self._steps = steps
        self._undos: dict[str, tuple[StepCall, Callable[[Any], object]]] = {}
        self._is_entered = self._is_async = False

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, _T]],
        /,
        *args: Any,
        undo: Callable[[_T], object] | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, _T]: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., _T],
        /,
        *args: Any,
        undo: Callable[[_T], object] | None = None,
        **kwargs: Any,
    ) -> _T: ...

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        undo: Callable[[Any], object] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a step like ``JobContext.step``; it is undone if the job gives up before the saga ends.

        Args:
            name: name of the step.
            function: what to run.
            *args: arguments of the function.
            undo: called with the step's result to undo it; may be ``retrying`` or ``timed``. None: there is nothing
                to undo.
            **kwargs: keyword arguments of the function; one called ``undo`` must be bound, by ``functools.partial``.

        Raises:
            RuntimeError: the saga was not entered by ``with``, or its block has ended.
            TypeError: ``undo`` cannot be called with the step's result alone, or is a coroutine function, but the saga
                was not entered by ``async with``.
            SagaUndone: the job has given up and undoes its sagas, and this step had not finished.
        """
        if not self._is_entered:
            raise RuntimeError(
                f"step {name!r} is outside the block of its saga, so it would not be undone; write: "
                "with context.saga() as saga"
            )
        if undo is None:
            return self._steps.run(name, function, args, kwargs)
        if not callable(undo):
            raise TypeError(
                f"undo of step {name!r} has to be a function of the step's result, not {undo!r:.80}; do not call it"
            )
        if is_async(undo) and not self._is_async:
            raise TypeError(f"undo of step {name!r} is a coroutine function; write async with context.saga()")
        if not takes_result(undo):
            raise TypeError(
                f"undo of step {name!r} is called with the step's result alone, which {undo!r:.80} cannot take"
            )

        def remember(call: StepCall, is_news: bool) -> None:
            self._undos[call.key] = (call, undo)
            self._context.reached_to_undo |= {call.key}
            if is_news:
                self._remember(call.key)

        return self._steps.run(name, function, args, kwargs, remember)

    def _remember(self, key: str) -> None:
        """Record that a step has finished, and which ones before it have failed; this is saved with its result."""
        mark = self._metadata.saga
        if mark is None:
            mark = self._metadata.saga = self._context.new_saga_mark()
        mark.steps.append(key)
        mark.passed += [failed for failed in dict.fromkeys(self._steps.failed) if failed not in mark.passed]
        self._steps.failed.clear()

    def __enter__(self) -> Self:
        self._context.go_on()
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        if self._is_to_undo(error):
            failures = _Failures(self._context)
            for key in self._keys():
                with failures.of(key):
                    self._run_undo(key)
                    self._undone(key)
            self._end_undoing(error, failures)
        elif error is None and self._close():
            self._steps.save()

    async def __aenter__(self) -> Self:
        self._is_async = True
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        if self._is_to_undo(error):
            failures = _Failures(self._context)
            for key in self._keys():
                with failures.of(key):
                    ran = self._run_undo(key)
                    if isawaitable(ran):
                        await ran
                    self._undone(key)
            self._end_undoing(error, failures)
        elif error is None and self._close():
            await self._steps.save_awaited()

    def _is_to_undo(self, error: BaseException | None) -> bool:
        """Record how the block was left; return whether its steps are to be undone now."""
        if self._context.interruption is not None or (error is not None and not _is_of_job(error)):
            return False
        mark = self._metadata.saga
        if mark is not None and mark.why:
            # After a timeout, the next attempt has its full time to undo.
            return bool(self._keys()) and not isinstance(error, JobTimeout)
        if error is not None:
            self._context.saga_failure = error
        return False

    def _close(self) -> bool:
        """End a saga that succeeded; return whether there are steps that need not be undone any more."""
        mark = self._metadata.saga
        keys = self._keys()
        if self._context.interruption is not None or mark is None or mark.why or not keys:
            return False
        mark.steps = [key for key in mark.steps if key not in keys]
        return True

    def _keys(self) -> list[str]:
        """Return the steps to undo, the one that finished last first."""
        mark = self._metadata.saga
        return [] if mark is None else [key for key in reversed(mark.steps) if key in self._undos]

    def _run_undo(self, key: str) -> Awaitable[Any] | Any:
        call, undo = self._undos[key]
        return self._steps.run_undo(f"undo {key}", undo, self._steps.result_of(call))

    def _undone(self, key: str) -> None:
        assert self._metadata.saga is not None  # it has the key
        self._metadata.saga.steps.remove(key)

    def _end_undoing(self, error: BaseException | None, failures: _Failures) -> None:
        failures.raise_last()
        if error is None:
            self._context.begin()  # raises SagaUndone: the job has given up


def _is_of_job(error: BaseException) -> bool:
    return isinstance(error, Exception | SystemExit) and interruption_in(error) is None


class _Failures:
    """Failures to undo steps.

    Args:
        context: context of the attempt; in the last attempt, a failure does not stop the undoing of other steps.
    """

    def __init__(self, context: WorkflowContext) -> None:
        self._context = context
        self._failed: dict[str, Exception] = {}

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Record a failure to undo a step in the block; raise it only if there is another attempt."""
        try:
            yield
        except Exception as error:
            self._failed[key] = error
            if not self._context.is_last_attempt:
                raise self._error() from error

    def raise_last(self) -> None:
        """Raise the failures of the last attempt, if there are any."""
        if self._failed:
            raise self._error() from next(iter(self._failed.values()))

    def _error(self) -> UndoFailed:
        told = "; ".join(f"step {key!r}: {type(error).__name__}: {error}" for key, error in self._failed.items())
        return UndoFailed(f"cannot undo {told}")
