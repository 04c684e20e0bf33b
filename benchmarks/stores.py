"""The kinds of stores that can be measured, each beside a bare loop of its driver."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from benchmarks.database import Database
from benchmarks.finished import Finished


class Bare(Protocol):
    """The yardstick: the same work with nothing around the driver."""

    def insert(self, bodies: Sequence[bytes], *, delay_ms: int = 0) -> None:
        """Store jobs in one step."""

    def drain(self, batch_size: int, *, most: int) -> int:
        """Claim and acknowledge batch after batch, up to ``most`` jobs; return how many."""


class Stores(Protocol):
    """One kind of store; a server's store, and a bare one, has a name and a folder of its own."""

    driver: str
    """What the bare loop runs on."""

    is_shared: bool
    """Whether several servers may use one store."""

    databases: Sequence[Database]
    """The servers of all stores that were made so far, in the order of shards; none where there are no servers."""

    def settings(self, folder: Path, *, shards: int = 1, is_safe: bool = False) -> list[str]:
        """Make a store; return what its server has to be set to.

        Args:
            folder: where it goes.
            shards: of a store that can have several.
            is_safe: what is confirmed shall be on disk, whatever that costs.
        """

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Look into a store: which jobs have succeeded since."""

    def statements(self, folder: Path) -> int | None:
        """Return how many statements the server of a store has executed; None where there is none."""

    def work(self, folder: Path) -> dict[str, int]:
        """Return what the server of a store has done so far: statements, and how much these read."""

    def multiply(self, folder: Path, first: int, jobs: int) -> int:
        """Copy the first jobs of a store, which are all that it has, until there are so many; return their number.

        Where jobs cannot be copied by statements, it is left at the first ones.
        """

    def bare(self, folder: Path) -> AbstractContextManager[Bare]:
        """Make a bare store."""

    def close(self) -> None:
        """Let go of all of them."""


KINDS = {"sqlite": "SqliteStores", "mysql": "MysqlStores", "redis": "RedisStores"}
"""Name, as in PINLATER_BACKEND -> class that makes stores of that kind, in ``benchmarks/<name>_store.py``."""


def make_stores(kind: str) -> Stores:
    """Make what makes stores of a kind; the drivers of others are not imported, which takes its time."""
    module = importlib.import_module(f"benchmarks.{kind}_store")
    stores: Stores = getattr(module, KINDS[kind])()
    return stores
