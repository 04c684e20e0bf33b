"""Ticks of a periodic job: decides which ones run, and makes sure that there is always a next one."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.options import JobOptions
from pinlater.jobs.schedule import Schedule
from pinlater.model.body_fields import read_fields
from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, Recurrence, read_recurrence
from pinlater.model.class_name import name_in
from pinlater.model.policy import POLICY_FIELD
from pinlater.worker.claim_table.counters import CANCELLED, DISCARDED, TICK_FAILED
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.undoing import Undoing
from pinlater.worker.session.failure_text import origin_here
from pinlater.worker.session.outcome import Failure, Interruption, Outcome

log = logging.getLogger(__name__)


def reset_body(codec: JobCodec, queue: str, body: bytes) -> bytes | None:
    """Return the body of a periodic job with defaults of its class in place of the fields that do not fit the class.

    Otherwise a job that was enqueued before a field got another type would wait for days, and its unique key with it.
    Metadata of a run that has begun stays.

    Args:
        codec: codec of the job classes.
        queue: queue that the job came from.
        body: the stored body; if the job is not periodic, or nothing has to be replaced, the result is None.
    """
    kind, again = codec.kind_named(name_in(body)), read_recurrence(body)
    if kind is None or kind.job_options.schedule is None or again is None or not again.schedule:
        return None
    fields = read_fields(body)
    bare = {name: value for name, value in fields.items() if name == "job" or name.startswith("$")}
    misfits = [name for name in fields.keys() - bare.keys() if not _fits(codec, queue, bare | {name: fields[name]})]
    anew = {name: value for name, value in fields.items() if name not in misfits}
    if not misfits or not _fits(codec, queue, anew):  # the fields do not fit together, or the policy is invalid
        anew, misfits = {name: value for name, value in bare.items() if name != POLICY_FIELD}, ["all fields"]
    if anew == fields:
        return None
    log.warning("%s begins with defaults of its class for %s", kind.job_options.name, ", ".join(sorted(misfits)))
    return msgspec.json.encode(anew)


def _fits(codec: JobCodec, queue: str, fields: dict[str, msgspec.Raw]) -> bool:
    try:
        codec.decode(queue, msgspec.json.encode(fields))
    except BodyInvalid:
        return False
    return True


class _TickAfter:
    """Schedules the next tick after the last one, so that none runs twice."""

    def __init__(self, schedule: Schedule, due_ms: int) -> None:
        self._schedule = schedule
        self._due_ms = due_ms

    def due_ms(self, now_seconds: float) -> int:
        # Our clock may be behind that of the server, which has handed the job out: then now is before the job's tick.
        return self._schedule.next_ms(max(int(now_seconds * 1000), self._due_ms))


def _change_of_class(options: JobOptions, queue: str, again: Recurrence) -> str:
    """Say what a deployment has changed so that another job belongs to the class now; empty if nothing."""
    if options.schedule is None or options.schedule.text != again.schedule:
        return f"its schedule {again.schedule!r} is from another deployment"
    return "" if queue == options.queue else f"it is in queue {queue}, and its class uses queue {options.queue} now"


class Tick:
    """One tick of a periodic job, or the rest of it after a failed attempt.

    A run that has begun is brought to its end, even if the class has another schedule or queue by then: a deployment
    interrupts runs, and their work must not be left half done. It is then the last run of that job.

    Args:
        context: context of this attempt; gets the tick's number of attempts, and the next run.
        again: the recurrence that the job was enqueued or rescheduled with.

    Attributes:
        is_over: whether the job is not to be run.
        outcome: its outcome in that case.
    """

    def __init__(self, context: RunContext, again: Recurrence) -> None:
        options, claims, told = context.job.job_options, context.attempt, context.attempts_allowed
        self._options, self._context = options, context
        self.is_over = True
        self.outcome: Outcome | None = None
        change = _change_of_class(options, context.queue, again)
        self._is_last_run = bool(change)
        if change and claims == 1 and not again.has_begun:
            log.info("%s ended: %s", options.name, change)
            return
        if claims > max(told, self._claims_of_next) - PERIODIC_SPARE_ATTEMPTS // 2:
            log.error("%s lost too many claims, or was retried by hand; it is ended and enqueued again", options.name)
            return
        context.attempts_allowed = self._attempts_allowed(told)
        context.body.begin_tick(context.now_ms)
        if change:
            log.info("%s brings its run to an end, which is the last one: %s", options.name, change)
        elif options.schedule is not None:
            self._next = context.next_run = _TickAfter(options.schedule, again.due_ms)
        self.is_over = claims > context.attempts_allowed
        if self.is_over:
            log.error("%s is not run: this tick has no attempts left", options.name)
            here = origin_here(context.server_seconds())
            self.outcome = self._give_up(f"[{here}] not run: this tick has no attempts left\n")

    def after(self, outcome: Outcome | None) -> Outcome | None:
        """Return the outcome for the job after an attempt; a successful one was rescheduled already."""
        if isinstance(outcome, Failure) and outcome.ending == CANCELLED:
            return outcome  # there is no next tick
        if isinstance(outcome, Failure) and (outcome.delay_ms is None or self._context.is_last_attempt):
            return self._give_up(outcome.status, outcome.ending)
        if isinstance(outcome, Interruption) and outcome.attempts is not None:
            own = outcome.attempts if isinstance(outcome, Undoing) else self._options.attempts
            return replace(outcome, attempts=own + PERIODIC_SPARE_ATTEMPTS)
        return outcome

    def _attempts_allowed(self, told: int) -> int:
        """Return the attempts of this tick, given those that the server was told of."""
        own, mark = max(told - PERIODIC_SPARE_ATTEMPTS, 1), self._context.saga_mark
        if mark is not None and mark.why:  # undoing has separate attempts, perhaps more than the class allows
            return own
        # If the class allows more by now than the server was told of, that holds from the next tick on.
        return min(self._options.attempts, own)

    @property
    def _claims_of_next(self) -> int:
        return self._options.attempts + PERIODIC_SPARE_ATTEMPTS

    def _give_up(self, status: str, ending: str = TICK_FAILED) -> Outcome:
        """Give up this tick: keep the error in the status and schedule the next tick, unless this is the last run.

        A tick that the job itself has discarded is not a failure.
        """
        if self._is_last_run:
            return Failure(status, None, ending, self._options.name)
        due_ms = self._next.due_ms(self._context.server_seconds())
        is_discarded = ending == DISCARDED
        body = self._context.body.of_next_run_after_failure(due_ms, is_failure=not is_discarded)
        ending, drops = DISCARDED if is_discarded else TICK_FAILED, self._context.body.dropped
        return Interruption(body, due_ms, self._claims_of_next, status, ending, drops=drops)
