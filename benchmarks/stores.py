"""The kinds of stores that can be measured, each with a bare store of its driver."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from benchmarks.database import Database
from benchmarks.finished import Finished


class Bare(Protocol):
    """The baseline: the same work with nothing around the driver."""

    def insert(self, bodies: Sequence[bytes], *, delay_ms: int = 0) -> None:
        """Store jobs in one transaction or pipeline."""

    def drain(self, batch_size: int, *, most: int) -> int:
        """Claim and acknowledge batch after batch, up to ``most`` jobs; return how many."""


class Stores(Protocol):
    """One kind of store; each store, bare ones included, has its own folder."""

    driver: str
    """Driver of the bare store."""

    is_shared: bool
    """Whether several servers may use one store."""

    databases: Sequence[Database]
    """Database servers of all stores created so far, in the order of shards; empty for kinds without servers."""

    def settings(self, folder: Path, *, shards: int = 1, is_safe: bool = False) -> list[str]:
        """Create a store; return the settings of its PinLater server.

        Args:
            folder: folder of the store.
            shards: number of shards, if the kind can have several.
            is_safe: whether everything is synced to disk before it is confirmed, whatever that costs.
        """

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Return which jobs of a store have succeeded since a moment."""

    def statements(self, folder: Path) -> int | None:
        """Return how many statements the server of a store has executed; None if there is no server."""

    def work(self, folder: Path) -> dict[str, int]:
        """Return what the server of a store has done so far: statements, and rows read or time spent."""

    def multiply(self, folder: Path, first: int, jobs: int) -> int:
        """Copy the ``first`` jobs, which are all that the store has, until there are ``jobs``; return the final number.

        If statements cannot copy jobs, only the first ones remain.
        """

    def bare(self, folder: Path) -> AbstractContextManager[Bare]:
        """Create a bare store."""

    def close(self) -> None:
        """Stop all servers."""


KINDS = {"sqlite": "SqliteStores", "mysql": "MysqlStores", "redis": "RedisStores"}
"""Name, as in PINLATER_BACKEND -> class that makes stores of that kind, in ``benchmarks/<name>_store.py``."""


def make_stores(kind: str) -> Stores:
    """Return the creator of stores of a kind; the drivers of other kinds are not imported, since that takes time."""
    module = importlib.import_module(f"benchmarks.{kind}_store")
    stores: Stores = getattr(module, KINDS[kind])()
    return stores
