"""What is recorded of the finished steps of a run: their results, and which calls these were."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from logging import LoggerAdapter
from typing import Any, NamedTuple

from pinlater.errors import BodyInvalid, StepMismatch
from pinlater.jobs.fingerprints import Fingerprints, call_text, shortened
from pinlater.jobs.step_functions import name_of
from pinlater.jobs.step_results import as_json, copied, misfit, typed_result
from pinlater.model.body_metadata import MOST_TIMES, BodyMetadata

MISSING: Any = object()
"""Stands for the result of a step that has not finished."""


class StepCall(NamedTuple):
    """One step of a run.

    Attributes:
        key: what its result is kept under.
        function: what it does.
        args: arguments of the function.
        kwargs: its keyword arguments.
        fingerprint: of function and arguments, as they were before the call.
        on_finished: called when it has finished.
        is_undo: whether it undoes another step.
    """

    key: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    fingerprint: str
    on_finished: OnFinished
    is_undo: bool = False

    def __str__(self) -> str:
        return call_text(self.function, self.args, self.kwargs)


OnFinished = Callable[[StepCall, bool], object]
"""Called when a step has finished, and whether that was just now: otherwise it was in an earlier attempt."""


def ignore_finished(_call: StepCall, _is_news: bool) -> None:
    """Do nothing."""


class StepRecords:
    """Keeps what is recorded of steps in a job's metadata."""

    def __init__(self, metadata: BodyMetadata) -> None:
        self._metadata = metadata
        self._fingerprints = Fingerprints(metadata.fingerprints)

    def recall(self, call: StepCall) -> Any:
        """Return the result of a finished step as the job gets it; ``MISSING`` if the step has not finished.

        Raises:
            StepMismatch: another call has finished under this key, or the result does not fit the type that the
                function returns by now.
        """
        key = call.key
        if key not in self._metadata.steps:
            return MISSING
        self._check_call(call)
        result = self._result(call)
        self._metadata.accept_record(key)
        return result

    def _check_call(self, call: StepCall) -> None:
        difference = self._fingerprints.difference(call.key, call.function, call.fingerprint)
        if difference:
            raise StepMismatch(
                f"step {call.key!r} is {call} now, but {difference}; its saved result is "
                f"{shortened(self._metadata.steps[call.key])}. Give a step with another meaning another name, or let "
                "runs that began before keep the old code, by context.since"
            )

    def _result(self, call: StepCall) -> Any:
        key, kept = call.key, self._metadata.steps[call.key]
        if key in self._metadata.untyped:
            return copied(kept)
        try:
            return typed_result(key, kept, call.function)
        except StepMismatch:
            if self._fingerprints.recorded(key):
                raise
            return copied(kept)  # an older version gave it to the job like this

    def finish(self, call: StepCall, result: Any, times: tuple[int, int, int], log: LoggerAdapter[Any]) -> Any:
        """Record a result; return it as a later attempt will get it, with the same types.

        Args:
            call: the step.
            result: what it returned.
            times: see ``BodyMetadata.times``.
            log: where a result that does not fit is told.

        Raises:
            BodyInvalid: JSON cannot carry it.
        """
        if inspect.iscoroutine(result):
            result.close()
            raise BodyInvalid(
                f"step {call.key!r} returned a coroutine; give it the async function itself, and await the step"
            )
        kept = as_json(call.key, result)
        why = misfit(kept, call.function)
        if why:
            log.warning(
                "step %r returned something that does not fit the return annotation of %s, so the job gets it as JSON: "
                "%s",
                *(call.key, name_of(call.function), why),
            )
            self._metadata.untyped.append(call.key)
        self._metadata.steps[call.key] = kept
        if len(self._metadata.times) < MOST_TIMES:
            self._metadata.times[call.key] = times
        self._metadata.tries.pop(call.key, None)
        self._fingerprints.record(call.key, call.function, call.fingerprint)
        return self._result(call)
