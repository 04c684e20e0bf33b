"""The runs of a periodic job: which of them are carried out, and that there is always a next one."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from pinlater.job import Job
from pinlater.kept import Again
from pinlater.schedule import Schedule
from pinlater.status import place
from pinlater.worker.outcome import Failure, Interruption, Outcome
from pinlater.worker.run_context import RunContext

SPARE_ATTEMPTS = 16
"""The server is told of so many more attempts than a tick has. So a last attempt whose process or machine died leaves
the job pending, and whoever claims it next can send it on to the next tick."""

log = logging.getLogger(__name__)


class _TickAfter:
    """The plan of a job that is not to miss a tick twice, nor to run for one twice."""

    def __init__(self, schedule: Schedule, due_ms: int) -> None:
        self._schedule = schedule
        self._due_ms = due_ms

    def due_ms(self, now_seconds: float) -> int:
        # Our clock may be behind that of the server, which has handed the job out: then now is before its own tick.
        return self._schedule.next_ms(max(int(now_seconds * 1000), self._due_ms))


class Tick:
    """One tick of a periodic job, or what is left of it after an attempt that failed.

    Args:
        job: the record.
        context: of this attempt.
        again: what it was planted or rescheduled with.
        now: epoch seconds, as the server has them.
    """

    def __init__(self, job: Job, context: RunContext, again: Again, now: Callable[[], float]) -> None:
        self._job = job
        self._context = context
        self._again = again
        self._now = now

    def run(self, attempt: Callable[[], Outcome | None]) -> Outcome | None:
        """Run an attempt, if the job still has its schedule and the tick its attempts; return what is to follow.

        Args:
            attempt: runs the job, and has the last word on its next run when it succeeds.
        """
        options, context = self._job.job_options, self._context
        schedule = options.schedule
        if schedule is None or schedule.text != self._again.schedule:
            log.info("%s with the schedule %r of another deployment ends", options.name, self._again.schedule)
            return None
        claims = context.attempt
        plan = context.next_run = _TickAfter(schedule, self._again.due_ms)
        context.attempts_allowed = options.attempts
        if claims > options.attempts + SPARE_ATTEMPTS // 2:
            log.error("%s has lost too many claims, or was retried by hand; it ends, and is planted anew", options.name)
            return None
        if claims > options.attempts:
            here = place(socket.gethostname(), os.getpid(), self._now())
            return self._give_up(plan, f"[{here}] not run: the attempts of this tick are spent\n")
        outcome = attempt()
        if isinstance(outcome, Failure) and (outcome.is_final or context.is_last_attempt):
            return self._give_up(plan, outcome.status)
        if isinstance(outcome, Interruption) and outcome.attempts is not None:
            return replace(outcome, attempts=self._claims_of_next)
        return outcome

    @property
    def _claims_of_next(self) -> int:
        return self._job.job_options.attempts + SPARE_ATTEMPTS

    def _give_up(self, plan: _TickAfter, status: str) -> Interruption:
        """Leave this tick without a success; the error stays in the status, and the next tick comes."""
        due_ms = plan.due_ms(self._now())
        body = self._context.body_of_next_run_after_failure(due_ms)
        return Interruption(body, due_ms, self._claims_of_next, status)
