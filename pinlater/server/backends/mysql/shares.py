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
        is_full: whether it takes no more jobs.
        has_more: whether it is full, and more jobs may be due than all dequeues get.
        is_held: whether more jobs may be due, but the limit of running jobs is reached.
        is_torn: whether another server has changed some of the jobs despite their locks.
    """

    __slots__ = ("_room", "call", "has_more", "is_full", "is_held", "is_torn", "jobs")

    def __init__(self, call: MysqlDequeueCall) -> None:
        self.call = call
        self.jobs: list[Candidate] = []
        self.is_full = self.has_more = self.is_held = self.is_torn = False
        self._room = call.max_bytes

    @property
    def wanted(self) -> int:
        """How many more jobs the dequeue wants."""
        return self.call.limit - len(self.jobs)

    @property
    def is_short(self) -> bool:
        """Whether the dequeue is to know when the next job falls due."""
        return self.call.want_next_due and not (self.has_more or self.is_held)

    def take(self, found: Sequence[Candidate], sizes: Sequence[int], start: int, running: int) -> Sequence[Candidate]:
        """Take those of the found jobs that it may have, from ``start`` on; return them."""
        most = min(self.wanted, self.call.allowed(running))
        end, self.is_full = end_of_answer(sizes, start, most, self._room, is_first=not self.jobs)
        self.is_held = self.is_full and most < self.wanted
        self.jobs += (taken := found[start:end])
        self._room -= sum(sizes[start:end]) + JOB_OVERHEAD_BYTES * len(taken)
        return taken


def share_out(found: Found, shares: Sequence[Share], running: int) -> list[Sequence[Candidate]]:
    """Divide the found jobs among the dequeues, in order, up to the limit and answer size of each.

    Args:
        found: the jobs.
        shares: what the dequeues have got before; the jobs are added.
        running: how many jobs of the queue run.

    Returns:
        The jobs that each dequeue has got now.
    """
    sizes, start = [job.size for job in found.jobs], 0
    parts: list[Sequence[Candidate]] = []
    for share in shares:
        parts.append(share.take(found.jobs, sizes, start, running + start))
        start += len(parts[-1])
    is_any_left = found.has_more or start < len(sizes)
    for share in shares:
        share.has_more = share.is_full and is_any_left
    return parts


def total_wanted(shares: Sequence[Share]) -> int:
    """Return how many more jobs the dequeues could take, with no others due."""
    return 0 if any(share.has_more or share.is_held for share in shares) else sum(share.wanted for share in shares)
