"""The claims that the processes of a worker hold, and the marks that tell them that jobs are to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.claim_table.snapshot import HELD, HeldBatch, HeldJob
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.keeper.service_client import ClaimKey, Renewal


class HeldClaim(NamedTuple):
    """A claim in the claim table.

    Attributes:
        row: the row of its process.
        batch: the batch of its dequeue.
        job: the job.
    """

    row: ClaimRow
    batch: HeldBatch
    job: HeldJob

    @property
    def key(self) -> ClaimKey:
        """Its descriptor and claim."""
        return self.job.descriptor, self.batch.claim


def held_claims(claim_table: ClaimTable, is_wanted: Callable[[HeldBatch, HeldJob], bool]) -> list[HeldClaim]:
    """Return the claims for which ``is_wanted`` is true, without those of jobs that the keeper has revoked."""
    return [
        HeldClaim(row, batch, job)
        for row in claim_table.rows()
        for batch in row.snapshot().batches
        for job in batch.jobs
        if is_wanted(batch, job) and (job.state != HELD or not batch.is_revoked)
    ]


def mark_stops(held: Iterable[HeldClaim], renewal: Renewal, seen_ns: int) -> None:
    """Mark in the claim table which jobs are to stop.

    Args:
        held: claims that were renewed.
        renewal: what the server said of them.
        seen_ns: a monotonic moment before the claims were read.
    """
    for claim in held if renewal.lost or renewal.cancelled else ():
        row, batch, job = claim
        if claim.key in renewal.lost:
            row.area(batch.number).mark_lost(job.position, batch.fetched_ns)
        elif claim.key in renewal.cancelled:
            row.area(batch.number).mark_cancelled(job.position, batch.fetched_ns, seen_ns)
