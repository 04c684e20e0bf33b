"""Determines the outcome of a run that has ended in any other way than with plain success."""

from __future__ import annotations

import logging
from contextlib import suppress
from time import monotonic_ns

from pinlater.errors import (
    BodyInvalid,
    BodyTooLarge,
    ClaimLost,
    Discard,
    JobCancelled,
    JobExpired,
    JobInterrupted,
    JobSleeps,
    JobTimeout,
    ResultTooLarge,
    Retry,
    SagaUndone,
    interruption_in,
)
from pinlater.jobs.next_run import NextRunPlan
from pinlater.jobs.retry_delay import bounded_ms, delay_ms
from pinlater.jobs.swallowed import swallowed_interruption
from pinlater.jobs.waiting import JobWaits
from pinlater.model.status import SAGAS_UNDONE
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.running.blocked import REASONS
from pinlater.worker.running.claim_checks import check_end, is_undoing_cancelled
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.undoing import has_undone, undo_first
from pinlater.worker.session.failure_text import describe_error, describe_failure, error_text
from pinlater.worker.session.outcome import Failure, Interruption, LostClaim, Outcome, Result

log = logging.getLogger(__name__)


class EndedRun:
    """The end of one run: why it ended, and what becomes of its job.

    Args:
        context: context of the run.
        started_ns: when it started, monotonic nanoseconds.
    """

    def __init__(self, context: RunContext, started_ns: int) -> None:
        self._context = context
        self._name = context.options.name
        self._seconds = (monotonic_ns() - started_ns) / 1e9

    def outcome(self, error: BaseException | None) -> Outcome | None:
        """Return the outcome of a run that has raised ``error``, or returned if that is None."""
        try:
            return self._outcome_after(error)
        except Exception as broken:  # raised by the job's own code: its exception class, or a handler of its log lines
            with suppress(Exception):
                log.exception("%s fails, since what it ended with cannot be told", self._name)
            context = self._context
            return self._failure(broken, delay_ms(context.options.backoff, context.attempt), "failed")

    def _outcome_after(self, error: BaseException | None) -> Outcome | None:
        context = self._context
        reason = self._reason_after(error)
        if reason is not None:
            return self.outcome_of(reason)
        if context.next_run is not None:
            return self._rescheduled(context.next_run)
        return None if context.result is None else Result(context.result)

    def _reason_after(self, error: BaseException | None) -> BaseException | None:
        """Return the exception that decides the outcome; an interruption by the context takes precedence."""
        context = self._context
        check_end(context)
        if error is None and context.interruption is None:
            # The job has caught it, but has left a saga neither finished nor undone; or it has left out a step.
            error = context.saga_failure or context.check_awaited()
        reason = swallowed_interruption(context, error) or context.interruption
        if reason is None and error is not None:
            return interruption_in(error) or error
        if reason is None and context.is_cancelled and is_undoing_cancelled(context):
            return JobCancelled("the job was cancelled")  # it has caught the exception that says so
        return reason

    def outcome_of(self, reason: BaseException) -> Outcome:
        """Return the outcome of a run that ended for ``reason``."""
        context = self._context
        context.reason = reason
        if isinstance(reason, ClaimLost):
            log.warning("%s stopped; its result is dropped: %s", self._name, reason)
            return LostClaim()
        if isinstance(reason, JobCancelled):
            log.info("%s stopped, since it was cancelled", self._name)
            return self._failure(reason, None, CANCELLED, with_traceback=False)
        if isinstance(reason, JobInterrupted):
            return self._interrupted(reason)
        if isinstance(reason, Discard):
            log.info("%s discarded: %s", self._name, error_text(reason))
            return self._failure(reason, None, "discarded", with_traceback=False)
        if isinstance(reason, JobExpired | ResultTooLarge | SagaUndone) or context.options.gives_up_on(reason):
            return self._given_up(reason)
        if has_undone(context):
            return self._given_up(reason, f" ({SAGAS_UNDONE})")
        if context.gives_up_after(reason):
            return self._given_up(reason, " (final: no retry would help)")
        return self._failed(reason)

    # Without a further attempt

    def _given_up(self, error: BaseException, verdict: str = "", *, ending: str = "given_up") -> Outcome:
        has_traceback = error.__traceback__ is not None and not isinstance(error, Retry)
        trace = error if has_traceback else None
        log.error("%s given up: %s%s", self._name, describe_error(error), verdict, exc_info=trace)
        return self._failure(error, None, ending, with_traceback=has_traceback, verdict=verdict)

    @property
    def _too_late(self) -> str:
        return f" (too late to try again: give_up_after={self._context.options.give_up_after:g})"

    # With a further attempt, if any is left

    def _failed(self, error: BaseException) -> Outcome:
        context = self._context
        if context.is_cancelled and not is_undoing_cancelled(context):  # it failed by itself before it noticed
            return self._given_up(error, " (it was cancelled)", ending=CANCELLED)
        is_planned = isinstance(error, Retry)
        if isinstance(error, Retry) and error.after is not None:
            after_ms = bounded_ms(error.after)
        else:
            after_ms = delay_ms(context.options.backoff_after(error), context.attempt)
        if not context.is_last_attempt and context.server_seconds() * 1000 + after_ms >= context.expires_ms:
            return self._given_up(error, self._too_late)
        self._log_failed(error, after_ms, with_traceback=not is_planned)
        ending = "retried" if is_planned else "timed_out" if isinstance(error, JobTimeout) else "failed"
        return self._failure(error, after_ms, ending, with_traceback=not is_planned)

    def _log_failed(self, error: BaseException, after_ms: int, *, with_traceback: bool) -> None:
        text = describe_error(error) if with_traceback else error_text(error)
        trace = error if with_traceback else None
        if self._context.is_last_attempt:
            log.error("%s failed for the last time: %s", self._name, text, exc_info=trace)
        else:
            log.warning("%s failed, next attempt in %.1f s: %s", self._name, after_ms / 1000, text, exc_info=trace)

    def _failure(
        self,
        error: BaseException,
        after_ms: int | None,
        ending: str,
        *,
        with_traceback: bool = True,
        verdict: str = "",
    ) -> Outcome:
        """Return the outcome that spends the attempt; a job that gives up undoes its sagas first."""
        context = self._context
        status = describe_failure(
            context.attempt,
            context.attempts_allowed,
            self._seconds,
            error,
            with_traceback=with_traceback,
            is_last=after_ms is None,
            verdict=verdict,
            at_seconds=context.server_seconds(),
        )
        failure = Failure(status, after_ms, ending, self._name)
        outcome = undo_first(context, failure, error)
        if isinstance(outcome, Failure) and context.body.has_unsent_reports:  # other outcomes carry them
            with suppress(BodyTooLarge):
                context.body.send_reports()
        return outcome

    # Without spending an attempt

    def _interrupted(self, why: JobInterrupted) -> Outcome:
        context = self._context
        if isinstance(why, JobSleeps) and not isinstance(why, JobWaits) and why.until_ms >= context.expires_ms:
            cause = why.__cause__  # the error of a step that was to be retried
            if cause is None:
                return self._given_up(context.expired("it would sleep until"))
            return self._given_up(cause, self._too_late)
        try:
            body = context.body.after(why)
        except BodyInvalid as error:
            return self.outcome_of(error)
        if isinstance(why, JobWaits):  # a message may end the wait before the time that it names
            log.info("%s %s", self._name, why)
            return Interruption(body, int(min(why.until_ms, context.expires_ms)), waits_for=why.waits)
        if not isinstance(why, JobSleeps):
            log.info("%s interrupted; it will resume later", self._name)
            return Interruption(body)
        reason = REASONS.get(type(why.__cause__))
        if reason is None:
            log.info("%s %s", self._name, why)
        else:
            log.warning("%s waits for %s, no attempt spent: %s", self._name, reason.what, why.__cause__)
        failure = "" if reason is None else reason.ending
        return Interruption(body, why.until_ms, status=context.status_note, failure=failure)

    def _rescheduled(self, next_run: NextRunPlan) -> Outcome:
        context = self._context
        now = context.server_seconds()
        due_ms = next_run.due_ms(now)
        try:
            body = context.body.of_next_run(due_ms)
        except BodyInvalid as error:
            return self.outcome_of(error)
        log.debug("%s runs again in %.1f s", self._name, max(due_ms / 1000 - now, 0.0))
        return Interruption(body, due_ms, context.attempts_allowed, drops=context.body.dropped)
