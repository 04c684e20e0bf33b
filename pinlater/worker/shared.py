"""What all processes of a worker have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pinlater.errors import ConfigError
from pinlater.worker.claim_table.counters import Sheet, Tally
from pinlater.worker.claim_table.exit_queue import Notices
from pinlater.worker.claim_table.row import Slot
from pinlater.worker.claim_table.snapshot import ALONE, Layout
from pinlater.worker.claim_table.table import Board
from pinlater.worker.once_token import Once
from pinlater.worker.origin import Origin
from pinlater.worker.pools import JobPool
from pinlater.worker.process_event import Latch


@dataclass(frozen=True, slots=True)
class Shared:
    """Made by the master before it forks.

    Attributes:
        board: what each job process holds.
        notices: deaths that the keeper has not handled.
        tally: what has become of jobs.
        places: pool of job processes -> its part of the board; each pool counts its processes from 0.
        complaint: for the one process that says why none can start.
        banner: for the one that says what this worker does.
        stopping: the worker has begun to stop.
        origin: which worker it is.
    """

    board: Board
    notices: Notices
    tally: Tally
    places: Mapping[str, range]
    complaint: Once = field(default_factory=Once)
    banner: Once = field(default_factory=Once)
    stopping: Latch = field(default_factory=Latch)
    origin: Origin = field(default_factory=Origin.here)

    @classmethod
    def for_pools(cls, pools: Iterable[JobPool], layout: Layout = ALONE) -> Shared:
        """Make room in each pool for its processes, for a second generation beside them, and for some more."""
        places: dict[str, range] = {}
        end = 0
        for pool in pools:
            places[pool.name] = range(end, end := end + 4 * pool.processes + 64)
        return cls(Board(end, layout), Notices(end, layout), Tally(end), places)

    def slot(self, pool: str, number: int) -> Slot:
        """Return the slot of a pool's process with that number, which is in use from then on.

        Raises:
            ConfigError: there are not that many.
        """
        places = self.places[pool]
        if number >= len(places):
            raise ConfigError(f"at most {len(places)} processes of one pool can run at once; use fewer --processes")
        return self.board.slot(places[number])

    def slots(self, pool: str) -> Iterator[Slot]:
        """Yield those of a pool's processes that are there now."""
        for number in self.board.used(self.places[pool]):
            slot = self.board.slot(number)
            if slot.is_taken:
                yield slot

    def sheet(self, pool: str, number: int) -> Sheet:
        """Return the counts of a pool's process with that number."""
        return self.tally.sheet(self.places[pool][number])

    def renew(self) -> None:
        """Let a new generation of processes speak."""
        self.complaint.renew()
        self.banner.renew()
