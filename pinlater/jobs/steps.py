"""The steps of a workflow: each runs once, and its result is saved with the job."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from pinlater.errors import BodyInvalid, JobInterrupted, JobSleeps, JobTimeout, Retry
from pinlater.jobs.finite import NULL, refuse_non_finite
from pinlater.jobs.interruptible import InterruptibleContext, StepRun
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.options import JobOptions
from pinlater.jobs.retry_delay import bounded_ms, delay_ms
from pinlater.jobs.retrying import Retrying
from pinlater.model.body_metadata import BodyMetadata


class Steps:
    """Runs the steps of one attempt.

    Args:
        context: of the attempt.
        kept: where results are kept.
        options: returns those of the job.
        save: saves the record and what is kept.
        save_awaited: the same, from a coroutine.

    Attributes:
        ran: names of the steps that were finished here, in order.
    """

    def __init__(
        self,
        context: InterruptibleContext,
        metadata: BodyMetadata,
        options: Callable[[], JobOptions],
        save: Callable[[], object],
        save_awaited: Callable[[], Awaitable[object]],
    ) -> None:
        self.ran: list[str] = []
        self._context = context
        self._metadata = metadata
        self._options = options
        self._save = save
        self._save_awaited = save_awaited
        self._names = NameCounter()
        self._under_way = 0
        self._longest_wake_ms = 0
        self._one_ended = asyncio.Event()

    def run(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a step; see ``JobContext.step``. Return an awaitable for a coroutine function."""
        key = self._names.next(name)  # now: several awaited at once end in any order, but they are named in one
        if _is_async(function):
            return self._run_awaited(key, function, args, kwargs)
        self._context.go_on()
        if key in self._metadata.steps:
            return self._result(key)
        if self._context.is_draining:
            self._save()
            raise self._context.interrupt(JobInterrupted())
        try:
            with StepRun(self._context):
                found = function(*args, **kwargs)
        except Exception as error:
            if not isinstance(function, Retrying):
                raise
            wake_ms = self._failed(key, function, error)
            self._save()
            if wake_ms is None:
                self._gave_up(key, function)
                raise
            raise self._context.interrupt(JobSleeps(wake_ms)) from error
        result = self._finished(key, found)
        self._save()
        return result

    async def _run_awaited(
        self, key: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        self._context.go_on()
        if key in self._metadata.steps:
            return self._result(key)
        if self._context.is_draining:
            why = JobInterrupted()
            with self._recording_cancellation(why):
                await self._others_ended()
                self._context.go_on()
                await self._save_awaited()
            raise self._context.interrupt(why)
        self._under_way += 1
        try:
            with StepRun(self._context):
                found = await function(*args, **kwargs)
        except Exception as error:
            if not isinstance(function, Retrying):
                raise
            failure = error
        else:
            result = self._finished(key, found)
            await self._save_awaited()
            return result
        finally:
            self._under_way -= 1
            self._one_ended.set()
        wake_ms = self._failed(key, function, failure)
        if wake_ms is None:
            await self._save_awaited()
            self._gave_up(key, function)
            raise failure
        self._longest_wake_ms = max(self._longest_wake_ms, wake_ms)
        with self._recording_cancellation(JobSleeps(wake_ms)):
            await self._save_awaited()
            await self._others_ended()
        raise self._context.interrupt(JobSleeps(self._longest_wake_ms)) from failure

    def _failed(self, key: str, step: Retrying[..., Any], error: Exception) -> int | None:
        """Count a failed attempt of a step; return when it is retried, None for never."""
        attempt, failures = self._metadata.tries.pop(key, (0, 0))
        spent = failures + 1 if attempt == self._context.attempt else 1
        if spent >= step.attempts or isinstance(error, JobTimeout) or self._options().gives_up_on(error):
            return None
        self._metadata.tries[key] = (self._context.attempt, spent)
        after = error.after if isinstance(error, Retry) else None
        wait_ms = delay_ms(step.backoff, spent) if after is None else bounded_ms(after)
        self._context.log.warning(
            "step %r failed, attempt %d of %d; the next one is in %.1f s",
            *(key, spent, step.attempts, wait_ms / 1000),
            exc_info=error,
        )
        return int(time.time() * 1000) + wait_ms

    def _gave_up(self, key: str, step: Retrying[..., Any]) -> None:
        """Record that a step's last attempt has failed, for the rest of this attempt of the job.

        Only now, when the count was saved without it: a job that fails of it begins anew, also when its attempts are
        counted from somewhere else because a person retries it.
        """
        self._metadata.tries[key] = (self._context.attempt, step.attempts)

    async def _others_ended(self) -> None:
        """Wait for the steps that run beside this one: an exception that ends the attempt would cut them off.

        A step within a step does not wait: the outer one cannot end before it.
        """
        while self._under_way and StepRun.current(self._context) is None:
            self._one_ended.clear()
            await self._one_ended.wait()

    @contextmanager
    def _recording_cancellation(self, why: JobInterrupted) -> Iterator[None]:
        """Record the interruption if the job cancels a step that is about to raise it."""
        try:
            yield
        except asyncio.CancelledError:
            self._context.note_interruption(why)
            raise

    def _finished(self, key: str, result: Any) -> Any:
        """Store a result and return it as a later attempt will get it, with the same types."""
        if inspect.iscoroutine(result):
            result.close()
            raise BodyInvalid(
                f"step {key!r} returned a coroutine; give it the async function itself, and await the step"
            )
        self._metadata.steps[key] = as_json(key, result)
        self._metadata.tries.pop(key, None)
        self.ran.append(key)
        return self._result(key)

    def _result(self, key: str) -> Any:
        return as_json(key, self._metadata.steps[key])  # a copy: what the job does to it must not change what is kept


def _is_async(function: Callable[..., Any]) -> bool:
    if isinstance(function, Retrying):
        return _is_async(function.function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can be called, but how
    )


def as_json(key: str, result: Any) -> Any:
    """Return a result after a round trip through JSON.

    Raises:
        BodyInvalid: JSON cannot carry it.
    """
    try:
        text = msgspec.json.encode(result)
        if NULL in text:
            refuse_non_finite(result)
        return msgspec.json.decode(text)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BodyInvalid(f"step {key!r} returned something that JSON cannot carry: {error}") from error
