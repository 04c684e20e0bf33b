"""Ends an attempt if its claim was lost, or if its job is asked to stop.

The keeper, or whoever learns of it first, marks the job in the claim table; one look there is all that a job pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinlater.errors import ClaimLost, JobCancelled
from pinlater.model.body_metadata import OPEN_SAGA

if TYPE_CHECKING:
    from pinlater.worker.running.run_context import RunContext


def check_stop(context: RunContext) -> bool:
    """End the attempt if the claim was lost or the job was cancelled; return whether it ended it now."""
    if _check_lost(context):
        return True
    is_news = context.is_cancelled and not isinstance(context.interruption, ClaimLost | JobCancelled)
    is_news = is_news and not is_undoing_cancelled(context)
    if is_news:
        context.note_interruption(JobCancelled("the job was cancelled"))
    return is_news


def check_end(context: RunContext) -> None:
    """Find out, at the end of the run, why the job was told to stop.

    If it was not, it ended before it noticed a cancellation; only a lost claim still counts then.
    """
    if context.interruption is None and not context.batch.is_told:
        _check_lost(context)
    else:
        check_stop(context)


def _check_lost(context: RunContext) -> bool:
    is_news = context.batch.is_lost(context.position) and not isinstance(context.interruption, ClaimLost)
    if is_news:
        why = "the worker has lost its claim: the lease has expired, or the job was deleted"
        context.note_interruption(ClaimLost(why))
    return is_news


def is_undoing_cancelled(context: RunContext) -> bool:
    """Return whether the job was cancelled and undoes its sagas because of that; it is not told again."""
    mark = context.saga_mark
    return mark is not None and mark.is_cancelled


def ask_if_cancelled(context: RunContext) -> None:
    """Ask a server whether a job with something to undo was cancelled; then it was only handed out to undo that.

    Other jobs learn it with their next save.
    """
    if _may_have_been_cancelled(context):
        context.body.save_nothing()


async def ask_if_cancelled_awaited(context: RunContext) -> None:
    """Ask from a coroutine; see ``ask_if_cancelled``."""
    if _may_have_been_cancelled(context):
        await context.body.save_nothing_awaited()


def _may_have_been_cancelled(context: RunContext) -> bool:
    mark = context.saga_mark if OPEN_SAGA in context.body.last else None
    if mark is not None and mark.is_cancelled:
        context.batch.mark_undoing(context.position)
    return mark is not None and not mark.why
