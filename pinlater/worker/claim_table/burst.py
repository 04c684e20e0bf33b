"""When a burst is over: none of the worker's processes, in whichever pool, can find anything more to do.

A process that finds its queues empty cannot end by itself: the job of another one may put more into them. So each
shows on the board since when it has been idle, and one of them decides for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic_ns

from pinlater.worker.claim_table.row import Slot
from pinlater.worker.shared import Shared


class Burst:
    """One process's view of the burst.

    Args:
        shared: where all processes show what they do.
        slot: this process's.
        queues: all that the worker serves, in whichever pool.
    """

    def __init__(self, shared: Shared, slot: Slot, queues: Iterable[str]) -> None:
        self._shared = shared
        self._slot = slot
        self._queues = set(queues)
        self._looked_ns = 0

    def note_look(self) -> None:
        """Before a dequeue is sent, with everything settled."""
        self._looked_ns = monotonic_ns()

    def note_empty(self) -> None:
        """After the reply: there was no job."""
        self._slot.idle_since(self._looked_ns)

    def note_begin(self) -> None:
        """Before jobs are run."""
        self._slot.idle_since(0)

    def note_end(self) -> None:
        """When jobs were run, or given back."""
        self._slot.worked()

    @property
    def is_over(self) -> bool:
        """Whether all processes may end."""
        if not self._shared.board.is_burst_over and self._nothing_is_left():
            self._shared.board.end_burst()
        return self._shared.board.is_burst_over

    def _nothing_is_left(self) -> bool:
        """Whether every process has seen its queues empty since work was last done or came back.

        What is read first was written last: a process notes its work before its idleness, the master posts a death
        before it clears the slot, and the keeper notes what it gave back before it forgets the death.
        """
        slots = [slot for slot in self._shared.board.slots() if slot.is_taken]
        idle_ns = min(slot.idle_since_ns for slot in slots)
        served = {queue for slot in slots for queue in slot.identity.queues}
        if self._shared.notices.are_pending or not served >= self._queues:
            return False
        return idle_ns > self._shared.board.last_work_ns
