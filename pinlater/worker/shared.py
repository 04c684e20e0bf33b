"""Memory and tokens shared by all processes of a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pinlater.errors import ConfigError
from pinlater.worker.claim_table.counters import ProcessCounters, SharedCounters
from pinlater.worker.claim_table.exit_queue import ExitQueue
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT, Layout
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.class_page import ClassPage
from pinlater.worker.once_token import OnceToken
from pinlater.worker.origin import Origin
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.pools import JobPool


@dataclass(frozen=True, slots=True)
class Shared:
    """Holds what the processes share; the master creates it before it forks.

    Attributes:
        claim_table: the claims of each job process.
        exit_queue: exits of job processes that the keeper has not handled.
        counters: counters of finished jobs.
        row_numbers: pool of job processes -> its rows of the claim table; each pool counts its processes from 0.
        error_token: lets one process report why none can start; taken while that is so.
        banner_token: lets one process log what this worker does.
        stopping: set when the worker begins to stop.
        origin: identity of this worker.
        class_page: the job classes that the processes have loaded.
    """

    claim_table: ClaimTable
    exit_queue: ExitQueue
    counters: SharedCounters
    row_numbers: Mapping[str, range]
    error_token: OnceToken = field(default_factory=OnceToken)
    banner_token: OnceToken = field(default_factory=OnceToken)
    stopping: PipeEvent = field(default_factory=PipeEvent)
    origin: Origin = field(default_factory=Origin.here)
    class_page: ClassPage = field(default_factory=ClassPage)

    @classmethod
    def for_pools(cls, pools: Iterable[JobPool], layout: Layout = SOLO_LAYOUT) -> Shared:
        """Allocate rows for each pool's processes, a second generation beside them, and some spare ones."""
        row_numbers: dict[str, range] = {}
        end = 0
        for pool in pools:
            row_numbers[pool.name] = range(end, end := end + 4 * pool.processes + 64)
        return cls(ClaimTable(end, layout), ExitQueue(end, layout), SharedCounters(end), row_numbers)

    def row(self, pool: str, number: int) -> ClaimRow:
        """Return the row of a pool's process with that number, and mark it as used.

        Raises:
            ConfigError: there are not that many.
        """
        row_numbers = self.row_numbers[pool]
        if not self.has_row(pool, number):
            raise ConfigError(
                f"at most {len(row_numbers)} processes of one pool can run at once; use fewer --processes"
            )
        return self.claim_table.row(row_numbers[number])

    def has_row(self, pool: str, number: int) -> bool:
        """Whether there is a row for a pool's process with that number; a process without one ends before any job."""
        return number < len(self.row_numbers[pool])

    def rows(self) -> Iterator[tuple[str, int, ClaimRow]]:
        """Yield the rows of the current processes, each with its pool and its number in the claim table."""
        for pool, numbers in self.row_numbers.items():
            for number in self.claim_table.used(numbers):
                row = self.claim_table.row(number)
                if row.is_used:
                    yield pool, number, row

    def process_counters(self, pool: str, number: int) -> ProcessCounters:
        """Return the counters of a pool's process with that number."""
        return self.counters.of_process(self.row_numbers[pool][number])

    def restore_tokens(self) -> None:
        """Let a new generation log its banner and errors."""
        self.error_token.restore()
        self.banner_token.restore()
