"""Lets a job that gives up undo its sagas before it ends."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pinlater.jobs.retry_delay import delay_ms
from pinlater.model.body_metadata import UNDO_ATTEMPTS
from pinlater.model.status import SAGAS_LEFT
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.session.failure_text import describe_error, origin_here
from pinlater.worker.session.outcome import Failure, Interruption, Outcome

_CANCELLED = "it was cancelled"
_DIED = "its process died in its last attempt, or its claim was lost"
_FAILED = Failure("", None, ending="given_up")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Undoing(Interruption):
    """An outcome that lets a job that has given up undo its sagas."""


def undo_first(context: RunContext, outcome: Failure, error: BaseException) -> Failure | Undoing:
    """Return the outcome of a failed attempt whose job may have sagas to undo before it ends.

    Args:
        context: context of the attempt.
        outcome: its outcome if there were no sagas.
        error: why it has failed.
    """
    mark = context.saga_mark
    if mark is None:
        return outcome
    if outcome.ending == CANCELLED:
        begins = mark.steps and not mark.is_cancelled
        return _begin(context, outcome, _CANCELLED, is_cancelled=True) if begins else outcome
    if not mark.why:
        is_last = outcome.delay_ms is None or context.is_last_attempt
        if is_last and mark.steps:
            return _begin(context, outcome, describe_error(error))
        return replace(outcome, delay_ms=None) if is_last else outcome  # even if the server has spare attempts
    if not mark.steps:
        return replace(outcome, delay_ms=None, ending=CANCELLED if mark.is_cancelled else "given_up")
    if not context.is_last_attempt and outcome.delay_ms is None:
        return replace(outcome, delay_ms=delay_ms(context.options.backoff, context.attempt))
    if context.is_last_attempt:
        log.error("%s gives up to undo %s", context.options.name, ", ".join(map(repr, mark.steps)))
        left = ", ".join(f"{key!r}" for key in mark.steps)
        return replace(outcome, status=f"{outcome.status}{SAGAS_LEFT}{left}\n")
    return outcome


def has_undone(context: RunContext) -> bool:
    """Return whether a job that has given up has nothing left to undo, so that it gets no further attempt."""
    mark = context.saga_mark
    return mark is not None and bool(mark.why) and not mark.steps


class SpentRun:
    """Replaces the ``Tick`` of a job that is handed out only because it has spare attempts.

    Attributes:
        is_over: True: it is not run.
        outcome: its outcome.
    """

    is_over = True

    def __init__(self, context: RunContext) -> None:
        status = f"[{origin_here(context.server_seconds())}] not run again: {_DIED}\n"
        self.outcome: Outcome | None = undo_before(context, Failure(status, None, job=context.options.name))

    def after(self, outcome: Outcome | None) -> Outcome | None:
        """Return an outcome as it is."""
        return outcome


def is_spent(context: RunContext) -> bool:
    """Whether a job has only spare attempts left."""
    mark = context.saga_mark
    return mark is not None and mark.given > 0 and context.attempt > context.attempts_allowed


def undo_before(context: RunContext, outcome: Outcome) -> Outcome:
    """Return the outcome of a job that is not run because its attempts are spent.

    Args:
        context: context of the spare attempt in which the job was handed out.
        outcome: its outcome if there were no sagas.
    """
    mark = context.saga_mark
    if mark is None or mark.why or not mark.steps or not isinstance(outcome, Failure | Interruption):
        return outcome
    return _begin(context, replace(_FAILED, status=outcome.status), _DIED)


def _begin(context: RunContext, outcome: Failure, why: str, *, is_cancelled: bool = False) -> Undoing:
    log.warning("%s gives up; its sagas are undone first", context.options.name)
    body = context.body.to_undo(why, is_cancelled=is_cancelled)
    attempts = max(context.attempts_allowed, UNDO_ATTEMPTS)
    return Undoing(body, context.now_ms, attempts, outcome.status, outcome.ending)
