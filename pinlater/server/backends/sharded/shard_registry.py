"""Who is in the fleet: kept as the file of shards says, also while it changes."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence

from pinlater.errors import UnknownError
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_handle import Member, OnCall

log = logging.getLogger(__name__)


class Roster:
    """The shards by name.

    Args:
        make: makes a shard; it must not connect before it is asked for something.
        on_call: see ``OnCall``.
    """

    def __init__(self, make: Callable[[ShardSpec], Shard], on_call: OnCall) -> None:
        self._make = make
        self._on_call = on_call
        self._members: dict[str, Member] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def update(self, specs: Sequence[ShardSpec]) -> None:
        """Put another set of shards into force.

        A shard whose place stays the same keeps its connections and its health; one that goes is closed when the
        calls under way have ended.
        """
        present = {}
        for spec in specs:
            member = self._members.get(spec.name)
            if member is not None and member.spec.place == spec.place:
                member.spec = spec
            else:
                member = Member(self._make(spec), spec, self._on_call)
            present[spec.name] = member
        gone = [member for name, member in self._members.items() if present.get(name) is not member]
        self._members = present
        for member in gone:
            log.info("shard %s has left", member.name)
            task = asyncio.create_task(member.retire())
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def named(self, name: str) -> Member:
        """Return a shard.

        Raises:
            UnknownError: there is none of that name.
        """
        try:
            return self._members[name]
        except KeyError:
            known = ", ".join(map(repr, self._members))
            raise UnknownError(f"there is no shard {name!r} here, only {known}") from None

    def well(self) -> list[Member]:
        """Return the shards that are worth asking, in random order."""
        found = [member for member in self._members.values() if member.is_well]
        if len(found) > 1:
            random.shuffle(found)
        return found

    def enqueueable(self) -> list[Member]:
        """Return the shards that may take new jobs, ill ones too, in no special order."""
        return [member for member in self._members.values() if not member.spec.is_dequeue_only]

    async def close(self) -> None:
        """Close all shards, also those that are on their way out."""
        await asyncio.gather(*(member.close() for member in self._members.values()), *self._retiring)
