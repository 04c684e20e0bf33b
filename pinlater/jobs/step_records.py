"""Records of the finished steps of a run: their results, and fingerprints of their calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from logging import LoggerAdapter
from typing import Any, NamedTuple

import msgspec

from pinlater.errors import BodyInvalid, StepMismatch
from pinlater.jobs.fingerprints import Fingerprints, call_text, shortened
from pinlater.jobs.outside_steps import MOST_AFTER_MOVE, MOST_IN_BODY, OutsideSteps, StepResults, StepsMove
from pinlater.jobs.step_functions import name_of
from pinlater.jobs.step_results import as_json, copied, misfit, typed_result
from pinlater.model.body_metadata import MOST_TIMES, BodyMetadata

MISSING: Any = object()
"""Stands for the result of a step that has not finished."""


class StepCall(NamedTuple):
    """One step of a run.

    Attributes:
        key: name under which its result is recorded, such as ``load#2``.
        function: what it does.
        args: arguments of the function.
        kwargs: its keyword arguments.
        fingerprint: fingerprint of function and arguments, as they were before the call.
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
"""Called with a finished step, and whether it has finished just now rather than in an earlier attempt."""


def ignore_finished(_call: StepCall, _is_news: bool) -> None:
    """Do nothing."""


class StepRecords:
    """Records finished steps, in a job's metadata and beside its body.

    Args:
        metadata: metadata of the body.
        outside: results that are stored beside it.

    Attributes:
        tries: see ``BodyMetadata``.
    """

    def __init__(self, metadata: BodyMetadata, outside: OutsideSteps) -> None:
        self.tries = metadata.tries
        self._metadata = metadata
        self._outside = outside
        self._fingerprints = Fingerprints(metadata.fingerprints, metadata.prints, outside.results)
        self._bytes = len(msgspec.json.encode(metadata.steps))

    def recall(self, call: StepCall) -> Any:
        """Return the result of a finished step as the job gets it; ``MISSING`` if the step has not finished.

        Raises:
            StepMismatch: another call was recorded under this key, or the result does not fit the function's return
                type any more.
        """
        kept = self._kept(call.key)
        if kept is MISSING:
            return MISSING
        self._check_call(call, kept)
        result = self._result(call, kept)
        self._metadata.accept_record(call.key)
        return result

    def last_first(self) -> Iterator[str]:
        """Yield the names of all finished steps, the last one first."""
        yield from reversed(self._metadata.steps)
        yield from reversed(self._outside.results.steps)

    def _kept(self, key: str) -> Any:
        kept = self._metadata.steps.get(key, MISSING)
        return self._outside.results.steps.get(key, MISSING) if kept is MISSING else kept

    def _check_call(self, call: StepCall, kept: Any) -> None:
        difference = self._fingerprints.difference(call.key, call.function, call.fingerprint)
        if difference:
            raise StepMismatch(
                f"step {call.key!r} is {call} now, but {difference}; its saved result is {shortened(kept)}. Give a "
                "step with another meaning another name, or let runs that began before keep the old code, by "
                "context.since"
            )

    def _result(self, call: StepCall, kept: Any) -> Any:
        key = call.key
        if key in self._metadata.untyped or key in self._outside.results.untyped:
            return copied(kept)
        try:
            return typed_result(key, kept, call.function)
        except StepMismatch:
            if self._fingerprints.recorded(key):
                raise
            return copied(kept)  # recorded by an older version, which returned it untyped

    def finish(self, call: StepCall, result: Any, times: tuple[int, int, int], log: LoggerAdapter[Any]) -> Any:
        """Record a result; return it as a later attempt will get it, with the same types.

        Args:
            call: the step.
            result: what it returned.
            times: see ``BodyMetadata.times``.
            log: gets a warning about a result that does not fit its type.

        Raises:
            BodyInvalid: JSON cannot carry it.
        """
        if inspect.iscoroutine(result):
            result.close()
            raise BodyInvalid(
                f"step {call.key!r} returned a coroutine; give it the async function itself, and await the step"
            )
        kept, size = as_json(call.key, result)
        why = misfit(kept, call.function)
        if why:
            log.warning(
                "step %r returned something that does not fit the return annotation of %s, so the job gets it as JSON: "
                "%s",
                call.key,
                name_of(call.function),
                why,
            )
            self._metadata.untyped.append(call.key)
        self._metadata.steps[call.key] = kept
        if len(self._metadata.times) + len(self._outside.results.times) < MOST_TIMES:
            self._metadata.times[call.key] = times
        self._bytes += size + len(call.key)
        self._metadata.tries.pop(call.key, None)
        self._fingerprints.record(call.key, call.function, call.fingerprint)
        return self._result(call, kept)

    def move(self, descriptor: str) -> StepsMove | None:
        """Return the move of the results in the body out of it, if they are large; None if they stay."""
        if self._bytes < (MOST_AFTER_MOVE if self._metadata.kept else MOST_IN_BODY):
            return None
        steps = self._metadata.steps.copy()  # other threads may add some
        untyped = {key for key in self._metadata.untyped.copy() if key in steps}
        prints, functions = self._fingerprints.all_recorded(steps), self._fingerprints.functions()
        inside = StepResults(steps, prints, functions, untyped, self._metadata.times.copy())
        return self._outside.move(descriptor, inside)

    def settle(self, is_stored: Callable[[str], bool]) -> None:
        """Remove results from the body that are known to have moved.

        Args:
            is_stored: tells whether the message with a given id is stored.
        """
        moved = self._outside.settle(is_stored)
        if moved is None:
            return
        metadata = self._metadata
        self._fingerprints.forget(moved.steps, metadata.steps.copy())
        for key in moved.steps:
            metadata.steps.pop(key, None)
            metadata.times.pop(key, None)
        metadata.untyped[:] = [key for key in metadata.untyped if key not in moved.steps]
        self._bytes = len(msgspec.json.encode(metadata.steps))
