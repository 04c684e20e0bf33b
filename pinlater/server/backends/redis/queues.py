"""Queues of a shard: made, listed, deleted, held back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from pinlater.errors import QueueNotFound
from pinlater.server.backends.records import QueueChange, QueueSettings
from pinlater.server.backends.redis.connection import Command
from pinlater.server.backends.redis.script_calls import ANY_QUEUE, Asker

_REREAD_SECONDS = 10.0
_REREAD_AT_ONCE = 10
"""Of each queue once in that time, or, of many queues, so many at each look."""

_READ_AT_ONCE = 500


class Queues:
    """The names of queues are in one set; all else of a queue has keys of its own.

    Args:
        asker: runs scripts about a queue.
        aside: runs those about several.
        command: sends a command.
        names: key of the set of names.
        tag: the key of a queue, by its name.

    Settings are read again when a number says that somebody has changed some: it is counted up after each change. For
    servers that do not count, and changes that were cut off before it, some are read again each time.
    """

    def __init__(self, asker: Asker, aside: Asker, command: Command, names: str, tag: Callable[[str], str]) -> None:
        self._asker = asker
        self._aside = aside
        self._command = command
        self._names = names
        self._changes = f"{names}:changes"
        self._tag = tag
        self._known: dict[str, QueueSettings] = {}
        self._seen_changes: object = None
        self._rereading: list[str] = []
        self._next_round = 0.0

    async def create(self, queue: str) -> None:
        """Make a queue, unless it is there."""
        # Listed before and after: no deletion at the same time, by whatever version, and no failure in between, leaves
        # a queue that is not listed.
        await self._command("SADD", self._names, queue)
        await self._asker.ask("create", queue)
        await self._command("SADD", self._names, queue)

    async def delete(self, queue: str) -> None:
        """Remove a queue, if it is there."""
        with contextlib.suppress(QueueNotFound):
            await self._asker.ask("drop", queue)
        await self._command("SREM", self._names, queue)
        await self._command("INCR", self._changes)
        if await self._command("EXISTS", self._tag(queue)):  # made anew meanwhile
            await self._command("SADD", self._names, queue)

    async def listed(self) -> list[str]:
        """Return the names, perhaps with one of a queue that is about to be made or has just gone."""
        return [name.decode() for name in await self._command("SMEMBERS", self._names)]

    async def settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all queues that there are."""
        changes, names = await asyncio.gather(self._command("GET", self._changes), self.listed())
        now = asyncio.get_running_loop().time()
        if self._seen_changes != changes or not self._known:
            self._known, self._seen_changes = {}, changes
            self._rereading, self._next_round = [], now + _REREAD_SECONDS
        known = self._known
        await self._read([name for name in names if name not in known], known)
        await self._read(self._some_again(names, now), known)
        return {name: known[name] for name in names if name in known}

    def _some_again(self, names: Sequence[str], now: float) -> list[str]:
        """Return a few queues, so that all have their turn after a while, and many do not cost more."""
        if not self._rereading and now >= self._next_round:
            self._rereading, self._next_round = list(names), now + _REREAD_SECONDS
        some = self._rereading[:_REREAD_AT_ONCE]
        del self._rereading[:_REREAD_AT_ONCE]
        return some

    async def _read(self, names: Sequence[str], known: dict[str, QueueSettings]) -> None:
        for start in range(0, len(names), _READ_AT_ONCE):
            some = names[start : start + _READ_AT_ONCE]
            for name, found in zip(some, await self._aside.ask("settings", ANY_QUEUE, *some), strict=True):
                known.pop(name, None)
                if found is not None:
                    known[name] = _settings_of(*found)

    async def change_settings(self, queue: str, change: QueueChange) -> None:
        """Change settings of a queue."""
        await self._asker.ask("change_settings", queue, *map(_argument, change))
        await self._command("INCR", self._changes)


def _argument(value: float | None) -> str:
    return "" if value is None else repr(value + 0)


def _settings_of(is_paused: bytes | None, rate: bytes | None, most: bytes | None) -> QueueSettings:
    return QueueSettings(
        is_paused is not None, None if rate is None else float(rate), None if most is None else int(most)
    )
