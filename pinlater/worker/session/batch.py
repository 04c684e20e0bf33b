"""The jobs of one dequeue, from its reply to the confirmed ack of the last of them."""

from __future__ import annotations

from typing import Any

from pinlater.worker.claim_table.row import BatchArea
from pinlater.worker.claim_table.snapshot import GONE, HELD, RETURNING
from pinlater.worker.session.job_saves import JobSaves


class DequeuedBatch:
    """Holds the jobs of one dequeue in the order in which they are to run.

    Attributes:
        claim: the claim of them all.
        descriptors: one a job.
        bodies: one a job.
        metadata: one a job, as the server sent it.
        area: where they stand on the claim board.
        next: position of the next job to start.
        end: position after the last one to start.
        saves: those of its only job, of a batch that has one; None: none yet.
    """

    __slots__ = ("_unsettled", "area", "bodies", "claim", "descriptors", "end", "metadata", "next", "saves")

    def __init__(self, reply: Any, area: BatchArea) -> None:
        """Read the jobs of a reply and write them to the claim table."""
        metadata = reply.jobMetadata
        self.descriptors: list[str] = list(reply.jobs)
        self.bodies: list[bytes] = list(reply.jobs.values())
        self.metadata: list[Any] = [metadata[descriptor] for descriptor in self.descriptors]
        self.claim: str = self.metadata[0].claimDescriptor or ""
        self.area = area
        self.next = 0
        self.end = area.write(self.claim, self.descriptors)
        self.saves: JobSaves | None = None
        self._unsettled = len(self.descriptors)

    @property
    def unstarted(self) -> range:
        """Positions of the jobs still to run."""
        return range(self.next, self.end)

    @property
    def surplus(self) -> range:
        """Positions of jobs that did not fit into the claim table; they must be released."""
        return range(self.end, len(self.descriptors))

    def unstart(self, position: int, *, has_run: bool) -> None:
        """Mark a job for release; one that has run is released with a new body."""
        self.area.states[position] = RETURNING if has_run else HELD

    def finish(self, position: int) -> None:
        """Record that the server has confirmed the end or release of a job."""
        self.area.states[position] = GONE
        self._unsettled -= 1
        if not self._unsettled:
            self.area.clear()


def queue_of(descriptor: str) -> str:
    """Return the queue in a descriptor."""
    return descriptor[: descriptor.index(":")]
