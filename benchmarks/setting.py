"""What every benchmark is given: a folder, a kind of store, and how much to do."""

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
    """Where, on what, and how much.

    Attributes:
        folder: one that vanishes afterwards, on the disk to be measured.
        scale: share of the full work, 0 to 1.
        stores: makes them.
        rounds: how often each figure is measured.
        filled: what is in the store of each ``server`` at first; None: nothing.
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
        """Carry out all measures, one after the other, in each round; return what each of them found.

        The machine's speed drifts: what is to be compared has to be measured close together.
        """
        numbers: list[list[T]] = [[] for _ in measures]
        for _ in range(self.rounds):
            for measure, found in zip(measures, numbers, strict=True):
                found.append(measure())
        return numbers

    def server(self, name: str = "server", *, marks: Path | None = None, has_dashboard: bool = False) -> Server:
        """Start a server with a store where nothing is due; with ``marks``, it marks the stages of its calls there."""
        folder = self.folder / name
        folder.mkdir()
        if self.filled is not None and not self.stores.is_shared:
            self.filled.copy_to(folder, self.stores)
        server = Server(folder, self.stores.settings(folder), marks=marks, has_dashboard=has_dashboard)
        if self.filled is not None and self.stores.is_shared:
            self.filled.fill(server, folder, self.stores)
        return server

    def echo(self) -> Echo:
        """Start a server that sends back what it receives."""
        return Echo(self.folder)

    def safe_server(self, name: str, shards: int) -> Server:
        """Start a server with an empty store of several shards, which keeps on disk whatever it confirms."""
        folder = self.folder / name
        folder.mkdir()
        return Server(folder, self.stores.settings(folder, shards=shards, is_safe=True))

    def servers(self, count: int, name: str, *, shards: int = 1) -> list[Server]:
        """Start servers with one empty store that they share; its shards are on one server of a database."""
        folder = self.folder / name
        folder.mkdir()
        settings = self.stores.settings(folder, shards=shards)
        folders = [folder, *(folder / f"server{number}" for number in range(1, count))]
        for other in folders[1:]:
            other.mkdir()
        return [Server(one, settings) for one in folders]

    def statements(self, name: str) -> int:
        """Return how many statements the database of a store has executed."""
        return self.stores.statements(self.folder / name) or 0

    def finished(self, since_ms: int, name: str = "server") -> Finished:
        """Look into a server's store: which jobs have succeeded since."""
        return self.stores.finished(self.folder / name, since_ms)

    def worker(
        self, server: Server, *, processes: int, burst: bool = False, lease_seconds: int | None = None
    ) -> Worker:
        """Start a worker with the jobs of this package."""
        return Worker(self.folder, server, processes=processes, burst=burst, lease_seconds=lease_seconds)

    def viewers(self, server: Server, paths: Sequence[str], count: int, *, apart: bool) -> Viewers:
        """Let people look at the dashboard of a server; ``apart``: they take no processor that somebody else wants."""
        return Viewers(self.folder, server, paths, count, apart=apart)

    def reporters(self, server: Server, queues: Sequence[str]) -> Reporters:
        """Let workers report for queues to a server."""
        return Reporters(self.folder, server, queues)

    def work(self, name: str = "server") -> dict[str, int]:
        """Return what the database of a store has done so far, by name; nothing if it has no server."""
        return self.stores.work(self.folder / name)

    def bare(self, name: str = "bare") -> AbstractContextManager[Bare]:
        """Make an empty bare store, on the same disk."""
        folder = self.folder / f"bare-{name}"
        folder.mkdir()
        return self.stores.bare(folder)
