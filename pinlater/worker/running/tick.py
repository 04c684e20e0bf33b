"""Ticks of a periodic job: which ones run, and that there is always a next one."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job
from pinlater.jobs.schedule import Schedule
from pinlater.model.body_metadata import BodyMetadata, Recurrence, read_recurrence
from pinlater.model.class_name import name_in
from pinlater.model.status import format_origin
from pinlater.worker.claim_table.counters import CANCELLED, DISCARDED, TICK_FAILED
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.session.outcome import Failure, Interruption, Outcome

SPARE_ATTEMPTS = 16
"""Attempts that the server is given on top of a tick's own. So a last attempt whose process or machine died leaves
the job pending, and the next worker can move it to the next tick."""

log = logging.getLogger(__name__)


def reset_body(codec: JobCodec, body: bytes) -> bytes | None:
    """Return the body of a periodic job with the defaults of its class, in place of one that does not fit the class.

    Otherwise a job that was planted before a field got another type would wait for days, and its unique key with it.

    Args:
        codec: of the job classes.
        body: as it is on the queue; of a job that no schedule has planted, the result is None.
    """
    kind, again = codec.kind_named(name_in(body)), read_recurrence(body)
    if kind is None or kind.job_options.schedule is None or again is None or not again.schedule:
        return None
    anew = encode_body(kind(), BodyMetadata(recurrence=again))
    if anew == body:
        return None
    log.warning("%s is reset to the defaults of its class, whose fields have changed", kind.job_options.name)
    return anew


class _TickAfter:
    """Schedules the next tick after the last one, so that none runs twice."""

    def __init__(self, schedule: Schedule, due_ms: int) -> None:
        self._schedule = schedule
        self._due_ms = due_ms

    def due_ms(self, now_seconds: float) -> int:
        # Our clock may be behind that of the server, which has handed the job out: then now is before its own tick.
        return self._schedule.next_ms(max(int(now_seconds * 1000), self._due_ms))


class Tick:
    """One tick of a periodic job, or the rest of it after a failed attempt.

    Args:
        job: the record.
        context: of this attempt; it is told of the tick's attempts, and of the next one.
        again: what the job was planted or rescheduled with.
        now: epoch seconds, as the server has them.

    Attributes:
        is_over: whether the job is not to be run.
        outcome: what becomes of it then.
    """

    def __init__(self, job: Job, context: RunContext, again: Recurrence, now: Callable[[], float]) -> None:
        options, claims = job.job_options, context.attempt
        schedule = options.schedule
        self._job, self._context, self._now = job, context, now
        self.is_over = True
        self.outcome: Outcome | None = None
        if schedule is None or schedule.text != again.schedule:
            log.info("%s ended: its schedule %r is from another deployment", options.name, again.schedule)
            return
        if context.queue != options.queue:  # there is another one where the class is now
            log.info("%s ended in queue %s: its class uses queue %s now", options.name, context.queue, options.queue)
            return
        if claims > options.attempts + SPARE_ATTEMPTS // 2:
            log.error("%s lost too many claims, or was retried by hand; it is ended and enqueued again", options.name)
            return
        context.attempts_allowed = options.attempts
        context.tick_started_ms = int(now() * 1000)
        self._next = context.next_run = _TickAfter(schedule, again.due_ms)
        self.is_over = claims > options.attempts
        if self.is_over:
            log.error("%s is not run: this tick has no attempts left; it continues with the next tick", options.name)
            here = format_origin(socket.gethostname(), os.getpid(), now())
            self.outcome = self._give_up(f"[{here}] not run: this tick has no attempts left\n")

    def after(self, outcome: Outcome | None) -> Outcome | None:
        """Return the outcome for the job after an attempt; a successful one was rescheduled already."""
        if isinstance(outcome, Failure) and outcome.ending == CANCELLED:
            return outcome  # there is no next tick
        if isinstance(outcome, Failure) and (outcome.delay_ms is None or self._context.is_last_attempt):
            return self._give_up(outcome.status, outcome.ending)
        if isinstance(outcome, Interruption) and outcome.attempts is not None:
            return replace(outcome, attempts=self._claims_of_next)
        return outcome

    @property
    def _claims_of_next(self) -> int:
        return self._job.job_options.attempts + SPARE_ATTEMPTS

    def _give_up(self, status: str, ending: str = TICK_FAILED) -> Interruption:
        """Give up this tick: keep the error in the status and schedule the next tick.

        A tick that the job itself has discarded is no failure.
        """
        due_ms = self._next.due_ms(self._now())
        is_discarded = ending == DISCARDED
        body = self._context.body_of_next_run_after_failure(due_ms, is_failure=not is_discarded)
        ending, drops = DISCARDED if is_discarded else TICK_FAILED, self._context.dropped
        return Interruption(body, due_ms, self._claims_of_next, status, ending, drops=drops)
