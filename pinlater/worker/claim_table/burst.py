"""Decides when a burst is over: no process of the worker can find anything more to do.

A process that finds its queues empty cannot exit alone: another one's job may enqueue more. So each process records in
the claim table since when it has been idle, and one of them decides for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic, monotonic_ns

from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.shared import Shared


class Burst:
    """One process's part in the burst.

    Args:
        shared: memory shared by all processes.
        row: this process's row.
        queues: queues that the worker serves, in any pool.
    """

    def __init__(self, shared: Shared, row: ClaimRow, queues: Iterable[str]) -> None:
        self._shared = shared
        self._row = row
        self._queues = set(queues)
        self._polled_ns = 0

    def record_poll(self) -> None:
        """Record that a dequeue is about to be sent, with no ack pending."""
        self._polled_ns = monotonic_ns()

    def record_empty(self) -> None:
        """Record that the reply had no job."""
        self._row.set_idle_since(self._polled_ns)

    def record_work_begin(self) -> None:
        """Record that jobs are about to run."""
        self._row.set_idle_since(0)

    def record_work_end(self) -> None:
        """Record that jobs were run or released."""
        self._row.record_work()

    @property
    def retries_due_in_seconds(self) -> float:
        """Seconds until all failed jobs of the worker are due again; below 0 if they are."""
        return self._shared.claim_table.retries_due_ms / 1000 - monotonic()

    @property
    def is_over(self) -> bool:
        """Whether all processes may exit."""
        if not self._shared.claim_table.is_burst_over and self._is_all_idle():
            self._shared.claim_table.end_burst()
        return self._shared.claim_table.is_burst_over

    def _is_all_idle(self) -> bool:
        """Whether every process has seen its queues empty since work was last done or came back.

        This reads in the reverse order of writing: a process records work before idleness, the master posts an exit
        before it clears the row, and the keeper records released jobs before it removes the exit.
        """
        rows = [row for row in self._shared.claim_table.rows() if row.is_used]
        idle_ns = min(row.idle_since_ns for row in rows)
        served = {queue for row in rows for queue in row.identity.queues}
        if self._shared.exit_queue.has_pending or not served >= self._queues:
            return False
        return idle_ns > self._shared.claim_table.last_work_ns
