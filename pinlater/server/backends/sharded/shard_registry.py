"""Registry of the shards; it follows the shard file."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence

from pinlater.errors import UnknownError
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_handle import OnCall, ShardHandle

log = logging.getLogger(__name__)


class ShardRegistry:
    """The shards by name.

    Args:
        make: makes a shard; it must not connect before its first call.
        on_call: see ``OnCall``.

    Attributes:
        enqueueable: the shards that may take new jobs, unhealthy ones included, in no particular order.
    """

    def __init__(self, make: Callable[[ShardSpec], Shard], on_call: OnCall) -> None:
        self._make = make
        self._on_call = on_call
        self._handles: dict[str, ShardHandle] = {}
        self.enqueueable: Sequence[ShardHandle] = ()
        self._retiring: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[ShardHandle]:
        return iter(self._handles.values())

    def __len__(self) -> int:
        return len(self._handles)

    def update(self, specs: Sequence[ShardSpec]) -> None:
        """Replace the set of shards.

        A shard whose endpoint stays the same keeps its connections and its health; one that leaves is closed when the
        calls in flight have ended.
        """
        present = {}
        for spec in specs:
            handle = self._handles.get(spec.name)
            if handle is not None and handle.spec.endpoint == spec.endpoint:
                handle.spec = spec
            else:
                handle = ShardHandle(self._make(spec), spec, self._on_call)
            present[spec.name] = handle
        gone = [handle for name, handle in self._handles.items() if present.get(name) is not handle]
        self._handles = present
        self.enqueueable = tuple(handle for handle in present.values() if not handle.spec.is_dequeue_only)
        for handle in gone:
            log.info("shard %s has left", handle.name)
            task = asyncio.create_task(handle.retire())
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def named(self, name: str) -> ShardHandle:
        """Return a shard.

        Raises:
            UnknownError: there is no shard with that name.
        """
        try:
            return self._handles[name]
        except KeyError:
            known = ", ".join(map(repr, self._handles))
            raise UnknownError(f"there is no shard {name!r} here, only {known}") from None

    def healthy(self) -> list[ShardHandle]:
        """Return the healthy shards, in random order."""
        found = [handle for handle in self._handles.values() if handle.is_healthy]
        if len(found) > 1:
            random.shuffle(found)
        return found

    async def close(self) -> None:
        """Close all shards, including those being retired."""
        await asyncio.gather(*(handle.close() for handle in self._handles.values()), *self._retiring)
