"""The part of a running job's context that checks its claim: whether it was lost, or the job is asked to stop."""

from __future__ import annotations

from pinlater.errors import ClaimLost, JobCancelled
from pinlater.jobs.workflow_context import WorkflowContext
from pinlater.worker.session.batch import DequeuedBatch


class ClaimedContext(WorkflowContext):
    """A context that ends the attempt if the claim was lost or the job was cancelled.

    The keeper, or whoever learns of it first, marks the job in the claim table; one look there is all that a job pays.
    """

    batch: DequeuedBatch
    position: int

    @property
    def is_lost(self) -> bool:
        """Whether the claim was lost, as far as known."""
        return self.batch.is_lost(self.position)

    @property
    def is_undoing_cancelled(self) -> bool:
        """Whether the job was cancelled and undoes its sagas because of that; it is not told again."""
        mark = self.saga_mark
        return mark is not None and mark.is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled; see ``JobContext.is_cancelled``."""
        return self.batch.is_cancelled(self.position)

    def go_on(self) -> None:
        """Raise the interruption if the attempt was ended before, the claim was lost or the job was cancelled."""
        if self.batch.area.stop_ns[self.position]:
            self.check_stop()
        super().go_on()

    def check_claim(self) -> bool:
        """End the attempt if the claim was lost; return whether it ended it now."""
        is_news = self.is_lost and not isinstance(self.interruption, ClaimLost)
        if is_news:
            why = "the worker has lost its claim: the lease has expired, or the job was deleted"
            self.note_interruption(ClaimLost(why))
        return is_news

    def check_stop(self) -> bool:
        """End the attempt if the claim was lost or the job was cancelled; return whether it ended it now."""
        if self.check_claim():
            return True
        is_news = self.is_cancelled and not isinstance(self.interruption, ClaimLost | JobCancelled)
        is_news = is_news and not self.is_undoing_cancelled
        if is_news:
            self.note_interruption(JobCancelled("the job was cancelled"))
        return is_news

    def check_end(self) -> None:
        """Find out, at the end of the run, why the job was told to stop.

        If it was not, it ended before it noticed a cancellation; only a lost claim still counts then.
        """
        if self.interruption is None and not self.batch.is_told:
            self.check_claim()
        else:
            self.check_stop()
