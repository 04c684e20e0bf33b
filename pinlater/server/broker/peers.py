"""What the broker tells its peers: the other processes of its server, and other servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.poll_of_all import PollOfAll


class PeerNotifier(Protocol):
    """Notifies the other processes of this server, or other servers."""

    def notify(
        self, queue: str, due_ms: int | None, locations: Callable[[], Collection[JobLocation]], count: int | None, /
    ) -> None:
        """Notify them of jobs that no dequeue here waits for.

        Args:
            queue: their queue.
            due_ms: when they fall due, epoch milliseconds; None: now.
            locations: returns where they are, for those who need to know.
            count: how many there are; None: one or more.
        """

    def notify_polled(self, poll: PollOfAll, now_ms: int, /) -> None:
        """Tell them what a poll of all queues has found, and the present time, by the clock of the store."""

    def notify_cancelled(self, descriptors: Sequence[str], /) -> None:
        """Notify them of running jobs that this process has asked to stop."""


class OffersJobs(Protocol):
    """Offers jobs to other servers, and shares the work of seeing to those that fall due; see ``JobOffers``."""

    def offer(self, queue: str, count: int | None, locations: Collection[JobLocation]) -> None:
        """Offer due jobs, given how many (None: one or more) and where, or announce them to all."""

    def offer_rest(self, queue: str, *, are_new: bool) -> None:
        """Offer due jobs that a claim or a poll has seen; ``are_new``: the queue was empty before they came."""

    def fallen_due(self, queue: str, due_ms: int, wake: Callable[[], None]) -> None:
        """Call ``wake`` for a job that has fallen due, unless another server sees to it."""
