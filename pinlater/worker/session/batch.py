"""A batch of jobs of one dequeue, from its reply to the confirmed ack of the last of them."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic_ns
from typing import Any

from pinlater.worker.claim_table.row import BatchArea
from pinlater.worker.claim_table.snapshot import GONE, HELD, RETURNING, RUNNING, asked_at
from pinlater.worker.session.job_saves import JobSaves
from pinlater.worker.session.outcome import Failure

_NONE: dict[int, bytes] = {}
"""Shared by all batches without results, which are most."""
_NO_NUMBERS: dict[int, int] = {}


class DequeuedBatch:
    """Holds jobs of one dequeue, in the order in which they are to run: all of them, or one in a team.

    Attributes:
        claim: the claim descriptor that all jobs share.
        descriptors: one per job.
        queues: one per job.
        bodies: one per job.
        metadata: one per job, as the server sent it.
        area: place of the jobs in the claim table; once all are settled, another batch may use it.
        fetched_ns: when they were fetched; tells them apart from the jobs of another batch in the same area.
        next: position of the next job to start.
        end: position after the last one to start.
        is_told: whether the coroutine of a batch's only job was cancelled because the job is to stop.
        saves: the saves of a batch's only job; None: none yet.
        new_attempts: position of a job -> attempts that the server is to give it with its next checkpoint.
        results: position of a job that has succeeded -> its result; only for the few that have one.
        run_ms: position of a job -> milliseconds that it ran; only for jobs that took long.
    """

    __slots__ = (
        "_unsettled",
        "area",
        "bodies",
        "claim",
        "descriptors",
        "end",
        "fetched_ns",
        "is_told",
        "metadata",
        "new_attempts",
        "next",
        "queues",
        "results",
        "run_ms",
        "saves",
    )

    def __init__(self, reply: Any, area: BatchArea) -> None:
        """Read the jobs of a reply and write them to the claim table."""
        metadata = reply.jobMetadata
        self.descriptors: list[str] = list(reply.jobs)
        self.queues = [descriptor[: descriptor.index(":")] for descriptor in self.descriptors]  # no call for each
        self.bodies: list[bytes] = list(reply.jobs.values())
        self.metadata: list[Any] = [metadata[descriptor] for descriptor in self.descriptors]
        self.claim: str = self.metadata[0].claimDescriptor or ""
        self.area = area
        self.next = 0
        self.end = area.write(self.claim, self.descriptors)
        self.fetched_ns = area.fetched_ns
        self.saves: JobSaves | None = None
        self.is_told = False
        self.results: dict[int, bytes] = _NONE
        self.run_ms: dict[int, int] = _NO_NUMBERS
        self.new_attempts: dict[int, int] = _NO_NUMBERS
        self._unsettled = len(self.descriptors)

    @property
    def unstarted(self) -> range:
        """Positions of the jobs still to run."""
        return range(self.next, self.end)

    @property
    def surplus(self) -> range:
        """Positions of jobs that did not fit into the claim table; they must be released."""
        return range(self.end, len(self.descriptors))

    def has_further_attempts(self, position: int) -> bool:
        """Whether the server gives a job another attempt if this one fails, as far as its dequeue says."""
        remaining: int = self.metadata[position].attemptsRemaining
        return remaining > 1

    def is_running(self, position: int) -> bool:
        """Whether a job is marked as running; false once the batch is settled, even if another one uses its area."""
        return self.area.states[position] == RUNNING and self.area.fetched_ns == self.fetched_ns

    def is_lost(self, position: int) -> bool:
        """Whether the claim of a job was lost."""
        return self.area.stop_ns[position] == self.fetched_ns

    def is_cancelled(self, position: int) -> bool:
        """Whether a job is asked to stop."""
        return asked_at(self.area.stop_ns[position], self.fetched_ns) != 0

    def mark_undoing(self, position: int) -> None:
        """Record that a cancelled job now undoes what it did, so it must not be killed for not stopping."""
        self.area.mark_undoing(position, self.fetched_ns)

    def must_stop(self, position: int) -> bool:
        """Whether a job is to stop: its claim was lost, or it was cancelled and is not undoing its sagas for that."""
        if self.area.is_undoing(position, self.fetched_ns):
            return False
        return self.is_lost(position) or self.is_cancelled(position)

    def mark_lost(self, position: int) -> None:
        """Record that the claim of a job was lost, unless another batch uses its area already."""
        self.area.mark_lost(position, self.fetched_ns)

    def mark_cancelled(self, position: int) -> None:
        """Record that a job is asked to stop, unless another batch uses its area already."""
        if self.area.fetched_ns == self.fetched_ns:
            self.area.mark_cancelled(position, self.fetched_ns, monotonic_ns())

    def unstart(self, position: int, *, has_run: bool) -> None:
        """Mark a job for release; one that has run is released with a new body."""
        self.area.states[position] = RETURNING if has_run else HELD

    def keep_result(self, position: int, result: bytes) -> None:
        """Keep a job's result until its ack is confirmed.

        A large result does not fit into the claim table, so nobody else can ack the job: if the process dies, the job
        runs again.
        """
        if self.results is _NONE:
            self.results = {}
        self.results[position] = result
        self.area.put_result(position, result)

    def keep_failure(self, position: int, failure: Failure) -> None:
        """Keep a job's failure in the claim table, so that the keeper can ack it if this process dies or is busy."""
        text = failure.encoded(self.area.most_failure_bytes)
        delay_ms = failure.delay_ms
        if delay_ms is not None and not self.has_further_attempts(position):
            delay_ms = 0  # there is no retry for which a burst would have to wait
        self.area.put_failure(position, delay_ms, text)

    def keep_run_time(self, position: int, milliseconds: int) -> None:
        """Keep how long a job ran until its ack is confirmed."""
        if self.run_ms is _NO_NUMBERS:
            self.run_ms = {}
        self.run_ms[position] = milliseconds

    def finish(self, positions: Collection[int]) -> None:
        """Record that the server has confirmed the ends or releases of jobs."""
        states = self.area.states
        for position in positions:
            states[position] = GONE
        self._unsettled -= len(positions)
        if not self._unsettled:
            self.area.clear()
