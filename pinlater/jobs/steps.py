"""The steps of a workflow: each runs once, and its result is saved with the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from pinlater.errors import JobInterrupted, JobSleeps, JobTimeout, Retry, StepMismatch, StepTimeout
from pinlater.jobs.fingerprints import fingerprint
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.options import JobOptions
from pinlater.jobs.retry_delay import bounded_ms, delay_ms
from pinlater.jobs.retrying import Retrying, timeout_of
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.jobs.step_failures import note_step
from pinlater.jobs.step_functions import is_async
from pinlater.jobs.step_records import MISSING, OnFinished, StepCall, StepRecords, ignore_finished
from pinlater.jobs.step_run import StepRun
from pinlater.jobs.unawaited_steps import UnawaitedSteps

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext

_PATIENCE_SECONDS = 30.0
"""How long an attempt that is to end waits for steps that run."""


class Steps:
    """Runs the steps of one attempt.

    Args:
        context: context of the attempt.
        records: records of finished steps.
        options: returns the options of the job.
        save: saves the job's fields and metadata.
        save_awaited: the same, from a coroutine.

    Attributes:
        ran: names of the steps that finished in this attempt, in order.
        failed: names of those that failed or were cancelled, until a saga takes them over.
        names: counts the uses of names.
        records: records of finished steps.
        save: saves the job's fields and metadata.
        save_awaited: the same, from a coroutine.
    """

    def __init__(
        self,
        context: WorkflowContext,
        records: StepRecords,
        options: Callable[[], JobOptions],
        save: Callable[[], object],
        save_awaited: Callable[[], Awaitable[object]],
    ) -> None:
        self.ran: list[str] = []
        self.failed: list[str] = []
        self._context = context
        self.records = records
        self._tries = records.tries
        self._options = options
        self.save = save
        self.save_awaited = save_awaited
        self.names = NameCounter()
        self._under_way = 0
        self._longest_wake_ms = 0
        self._one_ended = asyncio.Event()

    def run(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        on_finished: OnFinished = ignore_finished,
    ) -> Any:
        """Run a step; see ``JobContext.step``. Return an awaitable for a coroutine function.

        Args:
            name: name of the step.
            function: what it does.
            args: arguments of the function.
            kwargs: its keyword arguments.
            on_finished: called when the step has finished, before that is saved.

        Raises:
            TypeError: the name is not text, or ``function`` cannot be called.
        """
        key = self.names.next(name)  # before it is awaited: steps that run at once are named in the order of the calls
        if not callable(function):
            raise TypeError(
                f"step {name!r} needs a function, not {function!r:.80}; give it the function and then its arguments, "
                f"and do not call it: step({name!r}, function, argument)"
            )
        call = StepCall(key, function, args, kwargs, fingerprint(function, args, kwargs), on_finished)
        return self._run(call)

    def run_undo(self, key: str, undo: Callable[[Any], object], result: Any) -> Any:
        """Run the undo of a step, as a step; return an awaitable for a coroutine function.

        Args:
            key: name under which it is recorded.
            undo: what to call.
            result: result of the step to undo.
        """
        found = fingerprint(undo, (result,), {})
        return self._run(StepCall(key, undo, (result,), {}, found, ignore_finished, is_undo=True))

    def result_of(self, call: StepCall) -> Any:
        """Return the result of a finished step, as the job gets it."""
        return self._recall(call)

    def _run(self, call: StepCall) -> Any:
        if not is_async(call.function):
            return self._run_now(call)
        unawaited = self._context.unawaited_steps
        if unawaited is None:
            unawaited = self._context.unawaited_steps = UnawaitedSteps()
        coroutine = self._run_in_view(call, unawaited)
        unawaited.call(call.key, coroutine)
        return coroutine

    def _run_now(self, call: StepCall) -> Any:
        self._context.go_on()
        if (result := self._recall(call)) is not MISSING:
            return result
        if not call.is_undo:
            self._context.begin(call.key)
        if self._context.is_draining:
            self.save()
            raise self._context.interrupt(JobInterrupted())
        started_ms = self._now_ms()
        try:
            found = self._called(call)
        except Exception as error:
            note_step(error, call.key)
            if not isinstance(call.function, Retrying) or _is_of_outer_step(error, call):
                self.failed.append(call.key)
                raise
            wake_ms = self._failed(call.key, call.function, error)
            self.save()
            if wake_ms is None:
                self._gave_up(call.key, call.function)
                raise
            raise self._context.interrupt(JobSleeps(wake_ms)) from error
        result = self._finished(call, found, started_ms)
        self.save()
        return result

    async def _run_in_view(self, call: StepCall, unawaited: UnawaitedSteps) -> Any:
        unawaited.begin(call.key)
        has_failed = True
        try:
            result = await self._run_awaited(call)
            has_failed = False
        finally:
            unawaited.end(call.key, has_failed=has_failed)
        return result

    async def _run_awaited(self, call: StepCall) -> Any:
        self._context.go_on()
        if (result := self._recall(call)) is not MISSING:
            return result
        if not call.is_undo and self._context.begin(call.key):
            await asyncio.sleep(0)  # what is to be undone may be reached beside it, and not after it
            self._context.begin(call.key)
        if self._context.is_draining:
            await self._stop_for_drain()
        while True:
            self._under_way += 1
            started_ms = self._now_ms()
            try:
                found = await self._awaited(call)
            except asyncio.CancelledError:
                self.failed.append(call.key)
                raise
            except Exception as error:
                note_step(error, call.key)
                if not isinstance(call.function, Retrying) or _is_of_outer_step(error, call):
                    self.failed.append(call.key)
                    raise
                failure = error
            else:
                result = self._finished(call, found, started_ms)
                await self.save_awaited()
                return result
            finally:
                self._under_way -= 1
                self._one_ended.set()
            wake_ms = self._failed(call.key, call.function, failure)
            if wake_ms is None:
                await self.save_awaited()
                self._gave_up(call.key, call.function)
                raise failure
            await self._wait_for_retry(wake_ms, failure)

    async def _stop_for_drain(self) -> NoReturn:
        """End the attempt, because the worker drains, once the steps that run have ended."""
        why = JobInterrupted()
        with self._recording_cancellation(why):
            await self.let_end()
            self._context.go_on()
            await self.save_awaited()
        raise self._context.interrupt(why)

    async def _wait_for_retry(self, wake_ms: int, failure: Exception) -> None:
        """End the attempt once the steps that run have ended; return at ``wake_ms`` if some still run.

        One of them may be waiting for the failed step, so it would never end if the retry came only after it. For the
        same reason, the step is retried in a drain, too.
        """
        self._longest_wake_ms = max(self._longest_wake_ms, wake_ms)
        with self._recording_cancellation(JobSleeps(wake_ms)):
            await self.save_awaited()
            have_ended = await self._others_ended((wake_ms - self._now_ms()) / 1000)
        if not have_ended and self._context.interruption is None:
            self._context.go_on()  # raises if the claim was lost meanwhile
            return
        raise self._context.interrupt(JobSleeps(self._longest_wake_ms)) from failure

    def _called(self, call: StepCall) -> Any:
        """Call a blocking function within its time limit."""
        seconds = timeout_of(call.function)
        with StepRun(self._context):
            if seconds is None:
                return call.function(*call.args, **call.kwargs)
            deadline = StepDeadline(call.key, seconds)
            try:
                with self._context.limit_step(deadline):
                    return call.function(*call.args, **call.kwargs)
            except StepTimeout as error:
                if not deadline.has_come:  # raised for a step around this one
                    raise
                raise deadline.error().with_traceback(error.__traceback__) from None

    async def _awaited(self, call: StepCall) -> Any:
        """Await a coroutine function within its time limit."""
        seconds = timeout_of(call.function)
        with StepRun(self._context):
            if seconds is None:
                return await call.function(*call.args, **call.kwargs)
            timeout = asyncio.timeout(seconds)
            try:
                async with timeout:
                    return await call.function(*call.args, **call.kwargs)
            except TimeoutError as error:
                if not timeout.expired():  # raised by the function itself
                    raise
                raise StepDeadline(call.key, seconds).error().with_traceback(error.__traceback__) from None

    def _recall(self, call: StepCall) -> Any:
        """Return the result of a step; ``MISSING`` if it has not finished."""
        try:
            result = self.records.recall(call)
        except StepMismatch as error:
            self._context.refuse_record(call.key, error)
        if result is not MISSING:
            call.on_finished(call, False)
        return result

    def _failed(self, key: str, step: Retrying[..., Any], error: Exception) -> int | None:
        """Count a failed attempt of a step; return the epoch milliseconds of its retry, None if there is none."""
        attempt, failures = self._tries.pop(key, (0, 0))
        spent = failures + 1 if attempt == self._context.attempt else 1
        if spent >= step.attempts or isinstance(error, JobTimeout) or self._options().gives_up_on(error):
            return None
        self._tries[key] = (self._context.attempt, spent)
        after = error.after if isinstance(error, Retry) else None
        wait_ms = delay_ms(step.backoff, spent) if after is None else bounded_ms(after)
        self._context.log.warning(
            "step %r failed, attempt %d of %d; the next one is in %.1f s",
            key,
            spent,
            step.attempts,
            wait_ms / 1000,
            exc_info=error,
        )
        return self._now_ms() + wait_ms

    def _gave_up(self, key: str, step: Retrying[..., Any]) -> None:
        """Record that a step's last attempt has failed, for the rest of this attempt of the job.

        The body was saved before that, without it: a job that fails because of the step gets all attempts of the step
        again, even if a retry by hand makes the numbers of the job's attempts repeat.
        """
        self._tries[key] = (self._context.attempt, step.attempts)
        self.failed.append(key)

    async def let_end(self) -> None:
        """Wait for the steps that run, for a while: they may themselves be waiting for what will not come."""
        await self._others_ended(_PATIENCE_SECONDS)

    async def _others_ended(self, seconds: float) -> bool:
        """Wait for the steps that run at the same time: an exception that ends the attempt would cut them off.

        A step inside a step does not wait, because the outer one cannot end before it.

        Args:
            seconds: longest wait.

        Returns:
            Whether they have ended.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._under_way and StepRun.current(self._context) is None:
                    self._one_ended.clear()
                    await self._one_ended.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def _recording_cancellation(self, why: JobInterrupted) -> Iterator[None]:
        """Record the interruption if the job cancels a step that is about to raise it."""
        try:
            yield
        except asyncio.CancelledError:
            self._context.note_interruption(why)
            raise

    def _finished(self, call: StepCall, result: Any, started_ms: int) -> Any:
        """Record a result and return it as a later attempt will get it."""
        times = started_ms, max(self._now_ms() - started_ms, 0), self._context.attempt
        given = self.records.finish(call, result, times, self._context.log)
        call.on_finished(call, True)
        self.ran.append(call.key)
        return given

    def _now_ms(self) -> int:
        return int(self._context.server_seconds() * 1000)


def _is_of_outer_step(error: Exception, call: StepCall) -> bool:
    """Return whether a step around this one has timed out; then this one has not failed."""
    return isinstance(error, StepTimeout) and error.step != call.key
