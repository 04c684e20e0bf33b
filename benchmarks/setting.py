"""What every benchmark gets: a folder, a kind of store, and how much to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.finished import Finished
from benchmarks.programs import Echo, Reporters, Server, Viewers, Worker
from benchmarks.stores import Bare, Stores
from benchmarks.waiting import FilledStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """Where to measure, on what, and how much.

    Attributes:
        folder: temporary folder on the disk to measure.
        scale: share of the full work, 0 to 1.
        stores: creates stores.
        rounds: how often each figure is measured.
        filled: jobs that the store of each ``server`` has at first; None for none.
    """

    folder: Path
    scale: float
    stores: Stores
    rounds: int
    filled: FilledStore | None = None

    def amount(self, full: int, *, step: int = 1) -> int:
        """Return the scaled amount: whole steps, at least two of them."""
        return max(round(full * self.scale / step), 2) * step

    def in_turns(self, *measures: Callable[[], T]) -> list[list[T]]:
        """Run all measures, one after the other, in each round; return the results of each.

        The machine's speed drifts, so things to be compared have to be measured close together.
        """
        numbers: list[list[T]] = [[] for _ in measures]
        for _ in range(self.rounds):
            for measure, found in zip(measures, numbers, strict=True):
                found.append(measure())
        return numbers

    def server(self, name: str = "server", *, marks: Path | None = None, has_dashboard: bool = False) -> Server:
        """Start a server on a store in which nothing is due; if given, ``marks`` is the file for its calls' stages."""
        folder = self.folder / name
        folder.mkdir()
        if self.filled is not None and not self.stores.is_shared:
            self.filled.copy_to(folder, self.stores)
        server = Server(folder, self.stores.settings(folder), marks=marks, has_dashboard=has_dashboard)
        if self.stores.is_shared:
            self._fill(server, folder)
        return server

    def _fill(self, server: Server, folder: Path, shards: int = 1) -> None:
        """Store the jobs that each store has at first, in a store with servers; this goes through a running server."""
        if self.filled is not None:
            self.filled.fill(server, folder, self.stores, shards)

    def echo(self) -> Echo:
        """Start a server that sends back what it receives."""
        return Echo(self.folder)

    def sharded_server(self, name: str, shards: int) -> Server:
        """Start a server on a store in which nothing is due, of several shards if its kind can have them."""
        return self.servers(1, name, shards=shards)[0] if self.stores.is_shared else self.server(name)

    def safe_server(self, name: str, shards: int) -> Server:
        """Start a server on a store of several shards in which nothing is due, and which syncs before it confirms."""
        folder = self.folder / name
        folder.mkdir()
        server = Server(folder, self.stores.settings(folder, shards=shards, is_safe=True))
        self._fill(server, folder, shards)
        return server

    def servers(self, count: int, name: str, *, shards: int = 1) -> list[Server]:
        """Start servers that share one store in which nothing is due; its shards are on one database server."""
        folder = self.folder / name
        folder.mkdir()
        settings = self.stores.settings(folder, shards=shards)
        folders = [folder, *(folder / f"server{number}" for number in range(1, count))]
        for other in folders[1:]:
            other.mkdir()
        servers = [Server(one, settings) for one in folders]
        self._fill(servers[0], folder, shards)
        return servers

    def statements(self, name: str) -> int:
        """Return how many statements the database of a store has executed."""
        return self.stores.statements(self.folder / name) or 0

    def finished(self, since_ms: int, name: str = "server") -> Finished:
        """Return which jobs in a server's store have succeeded since a moment."""
        return self.stores.finished(self.folder / name, since_ms)

    def worker(
        self, server: Server, *, processes: int, burst: bool = False, lease_seconds: int | None = None
    ) -> Worker:
        """Start a worker with the jobs of this package."""
        return Worker(self.folder, server, processes=processes, burst=burst, lease_seconds=lease_seconds)

    def viewers(self, server: Server, paths: Sequence[str], count: int, *, apart: bool) -> Viewers:
        """Start viewers of a server's dashboard; ``apart``: they use only processor time that nobody else wants."""
        return Viewers(self.folder, server, paths, count, apart=apart)

    def reporters(self, server: Server, queues: Sequence[str]) -> Reporters:
        """Start simulated workers that report for queues to a server."""
        return Reporters(self.folder, server, queues)

    def work(self, name: str = "server") -> dict[str, int]:
        """Return what the database of a store has done so far, by name; empty if it has no server."""
        return self.stores.work(self.folder / name)

    def bare(self, name: str = "bare") -> AbstractContextManager[Bare]:
        """Create an empty bare store on the same disk."""
        folder = self.folder / f"bare-{name}"
        folder.mkdir()
        return self.stores.bare(folder)
