"""What the other processes and servers tell and ask a process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.poll_of_all import PollNews


class PeerReceiver(Protocol):
    """Receives what other processes and servers send; it is the broker."""

    def on_remote_jobs(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        """Receive that a queue has new jobs; see ``OnJobs``."""

    def on_gap(self) -> None:
        """Receive that notifications may have been missed."""

    def on_cancelled(self, descriptors: Sequence[str]) -> None:
        """Receive running jobs that are asked to stop."""

    def on_poll(self, news: PollNews) -> None:
        """Receive what another one has found when it polled all queues."""

    def take_jobs(self, queue: str, count: int | None, locations: Collection[JobLocation]) -> int:
        """Wake dequeues for jobs on offer, given how many and where; return for how many jobs.

        Args:
            queue: the queue that has them.
            count: how many there are; None: one or more; 0: one or more, and none of them is new.
            locations: where they are; empty if that is not known.
        """

    def sees_to(self, queue: str, due_ms: int) -> bool:
        """Return whether this process sees to the jobs of a queue that fall due at a moment, in epoch milliseconds."""
