"""Runs ``async def`` jobs concurrently on one event loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from time import time

from pinlater.errors import BodyInvalid, JobInterrupted
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.job import Job
from pinlater.jobs.middleware import Middleware, run_within
from pinlater.worker import logs
from pinlater.worker.running.claim_checks import ask_if_cancelled_awaited, check_stop
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.ended_run import EndedRun
from pinlater.worker.running.loop_limits import await_limited
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.run_limits import RunLimits
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Outcome
from pinlater.worker.session.saver import Saver


class TaskRunner(Runner):
    """A ``Runner`` for jobs that are awaited.

    Args:
        codec, saver, now, middleware, unknown_seconds: as for ``Runner``.
        deadlines: hard limits of all jobs.
    """

    def __init__(
        self,
        codec: JobCodec,
        saver: Saver,
        deadlines: Deadlines,
        *,
        now: Callable[[], float] = time,
        middleware: Sequence[Middleware] = (),
        unknown_seconds: float | None = None,
    ) -> None:
        super().__init__(codec, saver, now=now, middleware=middleware, unknown_seconds=unknown_seconds)
        self._deadlines = deadlines

    async def run_awaited(self, batch: DequeuedBatch, position: int, now_ns: int) -> Outcome | None:
        """Run one job; see ``run``. Each call needs a separate task."""
        try:
            job = self._decode(batch.queues[position], batch.bodies[position])
            context = RunContext(job, batch, position, self._saver, self._services)
        except BodyInvalid as error:
            if not self._resets_body(batch, position):
                return self._unreadable(batch, position, error)
        else:
            if _is_blocking(type(job)):
                return self._unreadable(batch, position, _blocking_error(job))
            tick = self._tick_of(context) if context.may_have_metadata else None
            if tick is not None and tick.is_over:
                self._record_start(context, now_ns)  # it is counted, though it does not run
                return tick.outcome
            outcome = await self._attempt_awaited(context, now_ns)
            return outcome if tick is None else tick.after(outcome)
        return await self.run_awaited(batch, position, now_ns)  # see ``run``

    async def _attempt_awaited(self, context: RunContext, now_ns: int) -> Outcome | None:
        self._record_start(context, now_ns)
        logs.current_job.set(logs.CurrentJob(context))
        try:
            if context.may_have_metadata:
                await ask_if_cancelled_awaited(context)
            if context.batch.area.stop_ns[context.position] and check_stop(context):
                return self._ended(context, None, now_ns)
            if context.options.is_limited:
                run_limits = self._new_run_limits(context, now_ns)
                if run_limits is None:
                    return EndedRun(context, now_ns).outcome_of(context.expired("it was not run, since"))
                await self._call_limited(context, run_limits)
            else:
                await self._call_awaited(context)
        except BaseException as error:  # noqa: BLE001 - also SystemExit is a failure of the job, not of the process
            return self._ended(context, error, now_ns)
        return self._ended(context, None, now_ns)

    async def _call_limited(self, context: RunContext, run_limits: RunLimits) -> None:
        with self._deadlines.enforce(run_limits):
            awaited = self._call_awaited(context)
            await (await_limited(awaited, run_limits) if run_limits.is_soft else awaited)

    async def _call_awaited(self, context: RunContext) -> None:
        if self._middleware:
            await run_within(self._middleware, context.job, context, context.record_returned)
            return
        try:
            context.record_returned(await context.job.run(context))
        except JobInterrupted:
            await context.let_steps_end()
            raise


@cache
def _is_blocking(kind: type[Job]) -> bool:
    return not inspect.iscoroutinefunction(kind.run)


def _blocking_error(job: Job) -> BodyInvalid:
    return BodyInvalid(
        f"{job.job_options.name} has a blocking run, which would stop the other jobs of a worker with "
        "--concurrency; enqueue it to a queue that another worker serves"
    )
