"""Queues of a shard: made, listed, deleted, held back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pinlater.errors import QueueNotFound
from pinlater.server.backends.records import QueueChange, QueueSettings
from pinlater.server.backends.redis.asking import Asker
from pinlater.server.backends.redis.link import Command

_REREAD_SECONDS = 10.0


class Queues:
    """The names of queues are in one set; all else of a queue has keys of its own.

    Args:
        asker: runs scripts.
        command: sends a command.
        names: key of the set of names.
        tag: the key of a queue, by its name.

    Settings are read again when a number says that somebody has changed some: it is counted up after each change. For
    servers that do not count, and changes that were cut off before it, all are read again after a while.
    """

    def __init__(self, asker: Asker, command: Command, names: str, tag: Callable[[str], str]) -> None:
        self._asker = asker
        self._command = command
        self._names = names
        self._changes = f"{names}:changes"
        self._tag = tag
        self._known: dict[str, QueueSettings] = {}
        self._known_at: tuple[object, float] = (None, 0.0)

    async def create(self, queue: str) -> None:
        """Make a queue, unless it is there."""
        # The names may lie in another slot of a cluster than the queue, so that no script has both. Listed before and
        # after: no deletion at the same time, and no failure in between, leaves a queue that is not listed.
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
        seen, read_at = self._known_at
        if seen != changes or now - read_at > _REREAD_SECONDS:
            self._known, self._known_at = {}, (changes, now)
        known = self._known
        unknown = [name for name in names if name not in known]
        found = await asyncio.gather(*map(self._settings_of, unknown))
        known |= {name: settings for name, settings in zip(unknown, found, strict=True) if settings is not None}
        return {name: known[name] for name in names if name in known}

    async def _settings_of(self, queue: str) -> QueueSettings | None:
        try:
            is_paused, rate, most = await self._asker.ask("settings", queue)
        except QueueNotFound:
            return None
        return QueueSettings(
            is_paused is not None, None if rate is None else float(rate), None if most is None else int(most)
        )

    async def change_settings(self, queue: str, change: QueueChange) -> None:
        """Change settings of a queue."""
        await self._asker.ask("change_settings", queue, *map(_argument, change))
        await self._command("INCR", self._changes)


def _argument(value: float | None) -> str:
    return "" if value is None else repr(value + 0)
