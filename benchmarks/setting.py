"""What every benchmark is given: a folder, and how much to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare import BareStore
from benchmarks.programs import Server, Worker


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how much.

    Attributes:
        folder: one that vanishes afterwards, on the disk to be measured.
        scale: share of the full work, 0 to 1.
    """

    folder: Path
    scale: float

    def amount(self, full: int, *, step: int = 1) -> int:
        """Return the scaled amount: whole steps, at least two of them."""
        return max(round(full * self.scale / step), 2) * step

    def server(self, name: str = "server") -> Server:
        """Start a server with an empty store."""
        return Server(self.folder / name)

    def worker(self, server: Server, *, processes: int, burst: bool = False) -> Worker:
        """Start a worker with the jobs of this package."""
        return Worker(self.folder, server, processes=processes, burst=burst)

    def bare(self, name: str = "bare") -> BareStore:
        """Make an empty bare store, on the same disk."""
        return BareStore(self.folder / f"{name}.db")
