"""Runs jobs, each within its limits and its middleware."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from math import inf
from os import getpid
from time import time
from types import CoroutineType
from typing import NamedTuple, NoReturn

from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.job import Job
from pinlater.jobs.middleware import Middleware, run_within, within
from pinlater.jobs.options import JobOptions
from pinlater.jobs.result_type import has_typed_result
from pinlater.jobs.retry_delay import delay_ms
from pinlater.worker import logs
from pinlater.worker.running.claim_checks import ask_if_cancelled, check_stop
from pinlater.worker.running.ended_run import EndedRun
from pinlater.worker.running.limits import Limits, TimeLimits, never_kill
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.run_limits import RunLimits
from pinlater.worker.running.run_services import RunServices
from pinlater.worker.running.tick import Tick, reset_body
from pinlater.worker.running.undoing import SpentRun, is_spent, undo_before
from pinlater.worker.running.unknown import UnknownJobPolicy
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Outcome, Result
from pinlater.worker.session.saver import Saver

log = logging.getLogger(__name__)


class _Start(NamedTuple):
    """What is recorded when an attempt of a class starts: the same for all of its jobs with the same options.

    Attributes:
        kind: number of the class in the claim table.
        after_ms: delay of the next attempt if the process dies in this one.
        is_limited: whether the time of the run is limited.
        options: the options from which this was computed.
    """

    kind: int
    after_ms: int
    is_limited: bool
    options: JobOptions


class Runner:
    """Runs one job at a time. Whatever a job does, short of killing the process, is an outcome.

    Args:
        codec: decodes bodies.
        saver: makes the jobs' calls to the server.
        limits: runs jobs within their limits; None: ``TimeLimits``, where nobody kills the process.
        running: holds the running job for log lines.
        now: returns epoch seconds of the server's clock.
        middleware: surrounds each run, outermost first.
        unknown_seconds: how long jobs that do not fit this worker's code are released; None: they fail at once.
    """

    def __init__(
        self,
        codec: JobCodec,
        saver: Saver,
        limits: Limits | None = None,
        *,
        running: logs.CurrentJob = logs.solo_job,
        now: Callable[[], float] = time,
        middleware: Sequence[Middleware] = (),
        unknown_seconds: float | None = None,
    ) -> None:
        self._codec = codec
        self._decode = codec.decode
        self._with_result = {kind for kind in codec.kinds if has_typed_result(kind)}
        self._unknown = UnknownJobPolicy(unknown_seconds)
        self._numbers = {name: number for number, name in enumerate(codec.runnable_names)}
        self._saver = saver
        self._limits = limits or TimeLimits(never_kill, saver)
        self._coroutines = self._limits.coroutines
        self._services = RunServices(now, unknown_seconds, self._limits.limit_step)
        self._running = running
        self._now = now
        self._middleware = tuple(middleware)
        self._run = self._call_with_middleware if middleware else self._call
        self._pid = getpid()
        self._starts: dict[tuple[type[Job], int], _Start] = {}

    def run(self, batch: DequeuedBatch, position: int, now_ns: int) -> Outcome | None:
        """Run one job; return its outcome, or None for a success without a result.

        Args:
            batch: the job's batch.
            position: its position there.
            now_ns: monotonic time.
        """
        try:
            job = self._decode(batch.queues[position], batch.bodies[position])
            context = RunContext(job, batch, position, self._saver, self._services)
        except BodyInvalid as error:
            if not self._resets_body(batch, position):
                return self._unreadable(batch, position, error)
        else:
            tick = self._tick_of(context) if context.may_have_metadata else None
            if tick is not None and tick.is_over:
                self._record_start(context, now_ns)  # it is counted, though it does not run
                return tick.outcome
            outcome = self._attempt(context, now_ns)
            return outcome if tick is None else tick.after(outcome)
        return self.run(batch, position, now_ns)  # not above: it would be the context of each exception of the job

    def _resets_body(self, batch: DequeuedBatch, position: int) -> bool:
        """Replace what is unreadable in the body of a periodic job by defaults; return whether that was possible."""
        body = reset_body(self._codec, batch.queues[position], batch.bodies[position])
        if body is not None:
            batch.bodies[position] = body
        return body is not None

    def _tick_of(self, context: RunContext) -> Tick | SpentRun | None:
        """Return the tick of a periodic job, or a ``SpentRun`` of a job without attempts left; None for other jobs."""
        again = context.recurrence
        self._running.job = context  # its log lines name the job, too, though it may not run
        try:
            if again is None or not again.schedule:
                return SpentRun(context) if is_spent(context) else None
            tick = Tick(context, again)
            if tick.is_over and tick.outcome is not None:
                tick.outcome = tick.after(undo_before(context, tick.outcome))
            return tick
        finally:
            self._running.job = None

    def _attempt(self, context: RunContext, now_ns: int) -> Outcome | None:
        is_limited = self._record_start(context, now_ns)
        self._running.job = context
        try:
            if context.may_have_metadata:
                ask_if_cancelled(context)
            if context.batch.area.stop_ns[context.position] and check_stop(context):
                return self._ended(context, None, now_ns)
            if is_limited:
                run_limits = self._new_run_limits(context, now_ns)
                if run_limits is None:
                    return EndedRun(context, now_ns).outcome_of(context.expired("it was not run, since"))
                self._limits.run(run_limits, partial(copy_context().run, self._run, context))
            else:
                copy_context().run(self._run, context)  # so that the next job does not see what it sets there
        except BaseException as error:  # noqa: BLE001 - also SystemExit is a failure of the job, not of the process
            return self._ended(context, error, now_ns)
        finally:
            self._running.job = None
        is_plain = context.interruption is None and context.next_run is None and context.saga_failure is None
        is_plain = is_plain and not context.unawaited_steps and not context.batch.area.stop_ns[context.position]
        if is_plain and getpid() == self._pid:
            return None if context.result is None else Result(context.result)  # the fast path of nearly all jobs
        return self._ended(context, None, now_ns)

    def _ended(self, context: RunContext, error: BaseException | None, started_ns: int) -> Outcome | None:
        """Return the outcome of a run that has raised ``error``, or returned if that is None."""
        if getpid() != self._pid:
            leave_fork(error)
        return EndedRun(context, started_ns).outcome(error)

    def _call(self, context: RunContext) -> None:
        returned = context.job.run(context)
        if returned.__class__ is CoroutineType:
            returned = self._coroutines.run(
                returned, partial(check_stop, context), context.check_awaited, context.let_steps_end
            )
        if returned is not None or type(context.job) in self._with_result:
            context.record_returned(returned)

    def _call_with_middleware(self, context: RunContext) -> None:
        if iscoroutinefunction(context.job.run):
            awaited = run_within(self._middleware, context.job, context, context.record_returned)
            self._coroutines.run(awaited, partial(check_stop, context), context.check_awaited)
            return
        with within(self._middleware, context.job, context):
            self._call(context)

    def close(self) -> None:
        """Close the event loop that jobs have used."""
        self._coroutines.close()

    def _record_start(self, context: RunContext, now_ns: int) -> bool:
        """Record the start in the claim table, with what recovery needs if the process dies.

        Returns:
            Whether the time of the run is limited.
        """
        key, options = (type(context.job), context.attempt), context.options
        start = self._starts.get(key)
        if start is None or start.options is not options:
            after_ms = delay_ms(options.backoff, context.attempt)
            start = self._starts[key] = _Start(self._numbers[options.name], after_ms, options.is_limited, options)
        area, position = context.batch.area, context.position
        area.kinds[position], area.started_ns[position] = start.kind, now_ns
        area.delays[position] = start.after_ms if context.attempt < context.attempts_allowed else 0
        return start.is_limited

    def _new_run_limits(self, context: RunContext, now_ns: int) -> RunLimits | None:
        """Return the limits of a run that starts at monotonic ``now_ns``; None if its ``give_up_after`` is over."""
        began = now_ns / 1e9
        remaining_seconds = context.expires_ms / 1000 - self._now()
        if remaining_seconds <= 0:
            return None
        expires_at, area, position = began + remaining_seconds, context.batch.area, context.position
        if remaining_seconds < inf and not context.is_periodic:  # a periodic job goes on with its next tick in any case
            area.give_up_ns[position] = int(expires_at * 1e9)
        run_limits = RunLimits(context.options, began, area.kill_ns, position, expires_at)
        if context.options.stall_after is not None:
            context.run_limits = run_limits
        return run_limits

    def _unreadable(self, batch: DequeuedBatch, position: int, error: BodyInvalid) -> Outcome:
        return self._unknown.outcome(batch, position, error, int(self._now() * 1000))


def leave_fork(error: BaseException | None) -> NoReturn:
    """Exit a process that a job forked and that returned from the job: it must not continue as a second worker."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    else:
        code = int(error is not None)
    if code and not isinstance(error, SystemExit):
        log.error("a process forked by a job failed", exc_info=error)
    with suppress(OSError, ValueError, AttributeError):  # the job may have closed it
        sys.stdout.flush()
    os._exit(code & 0xFF)
