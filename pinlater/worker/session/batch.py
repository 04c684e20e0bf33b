"""The jobs of one dequeue, from its reply to the confirmed ack of the last of them."""

from __future__ import annotations

from typing import Any

from pinlater.worker.claim_table.row import BatchArea
from pinlater.worker.claim_table.snapshot import GONE, HELD, RETURNING
from pinlater.worker.session.job_saves import JobSaves


class DequeuedBatch:
    """Jobs in the order in which they are to run.

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
        """Take the jobs of a reply, and put them on the board."""
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
        """Positions of jobs that found no room on the board; they must go back."""
        return range(self.end, len(self.descriptors))

    def unstart(self, position: int, *, has_run: bool) -> None:
        """Note that a job is to be given back; one that has run does so with a body of its own."""
        self.area.states[position] = RETURNING if has_run else HELD

    def finish(self, position: int) -> None:
        """Note that the server no longer takes a job for ours."""
        self.area.states[position] = GONE
        self._unsettled -= 1
        if not self._unsettled:
            self.area.clear()


def queue_of(descriptor: str) -> str:
    """Return the queue that a descriptor names."""
    return descriptor[: descriptor.index(":")]
