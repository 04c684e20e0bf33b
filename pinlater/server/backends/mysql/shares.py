"""Which of the found jobs each dequeue gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.mysql.candidates import Candidate, Found
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES


class MysqlDequeueCall(NamedTuple):
    """One dequeue."""

    limit: int
    max_bytes: int
    claim: bytes
    lease_ms: int
    want_next_due: bool
    max_running: int | None

    def allowed(self, running: int) -> int:
        """Return how many jobs it may claim while ``running`` jobs run."""
        return self.limit if self.max_running is None else max(min(self.limit, self.max_running - running), 0)


class Share:
    """What one dequeue gets.

    Attributes:
        call: the dequeue.
        jobs: the jobs that it gets, in claim order.
        has_more: whether it is full, and more jobs may be due than all dequeues get.
        is_held: whether more jobs may be due, but the limit of running jobs is reached.
        is_torn: whether another server has changed some of the jobs despite their locks.
    """

    __slots__ = ("_room", "call", "has_more", "is_held", "is_torn", "jobs")

    def __init__(self, call: MysqlDequeueCall) -> None:
        self.call = call
        self.jobs: list[Candidate] = []
        self.has_more = self.is_held = self.is_torn = False
        self._room = call.max_bytes

    @property
    def wanted(self) -> int:
        """How many more jobs the dequeue wants."""
        return self.call.limit - len(self.jobs)

    @property
    def is_short(self) -> bool:
        """Whether the dequeue is to know when the next job falls due."""
        return self.call.want_next_due and not (self.has_more or self.is_held)

    def end(self, sizes: Sequence[int], start: int, running: int) -> tuple[int, bool]:
        """Return where those of the found jobs end that it takes from ``start`` on, and whether it is full then."""
        most = min(self.wanted, self.call.allowed(running))
        end, is_full = end_of_answer(sizes, start, most, self._room, is_first=not self.jobs)
        self.is_held = is_full and most < self.wanted
        return end, is_full

    def add(self, jobs: Sequence[Candidate]) -> None:
        """Add jobs."""
        self.jobs += jobs
        self._room -= sum(job.size + JOB_OVERHEAD_BYTES for job in jobs)


def share_out(found: Found, shares: Sequence[Share], running: int = 0) -> list[list[Candidate]]:
    """Divide the found jobs among the dequeues, in order, up to the limit and answer size of each.

    Args:
        found: the jobs.
        shares: what the dequeues have got before; the jobs are added.
        running: how many jobs of the queue run.

    Returns:
        The jobs that each dequeue has got now.
    """
    sizes, start, ends = [job.size for job in found.jobs], 0, []
    for share in shares:
        ends.append(share.end(sizes, start, running + start))
        start = ends[-1][0]
    has_more, parts, start = found.has_more or start < len(sizes), [], 0
    for share, (end, is_full) in zip(shares, ends, strict=True):
        share.has_more = is_full and has_more
        parts.append(found.jobs[start:end])
        share.add(parts[-1])
        start = end
    return parts


def total_wanted(shares: Sequence[Share]) -> int:
    """Return how many more jobs the dequeues could take, with no others due."""
    return 0 if any(share.has_more or share.is_held for share in shares) else sum(share.wanted for share in shares)
