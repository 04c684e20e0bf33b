"""Registry of the shards; it follows the shard file."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence

from pinlater.errors import ServiceError, ShardConnectionFailed, UnknownError
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_handle import OnCall, ShardHandle

log = logging.getLogger(__name__)

_SPREAD_SECONDS = 300.0
"""How long a change of the shard file may take to reach all servers."""

_MOST_MISSING = 1000


class ShardRegistry:
    """The shards by name.

    Args:
        make: makes a shard; it must not connect before its first call.
        on_call: see ``OnCall``.

    Attributes:
        enqueueable: the shards that may take new jobs, unhealthy ones included, in no particular order.
        look_for_changes: called when a call names an unknown shard; updates the shards if the shard file has changed.
    """

    def __init__(self, make: Callable[[ShardSpec], Shard], on_call: OnCall) -> None:
        self._make = make
        self._on_call = on_call
        self._handles: dict[str, ShardHandle] = {}
        self.enqueueable: Sequence[ShardHandle] = ()
        self.look_for_changes: Callable[[], None] = lambda: None
        self._missing_since: dict[str, float] = {}  # monotonic seconds, by name
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
        added_at = time.monotonic() if self._handles else -math.inf
        for spec in specs:
            handle = self._handles.get(spec.name)
            if handle is not None and handle.spec.endpoint == spec.endpoint:
                handle.spec = spec
            else:
                handle = ShardHandle(self._make(spec), spec, self._on_call, added_at)
            present[spec.name] = handle
        gone = [handle for name, handle in self._handles.items() if present.get(name) is not handle]
        self._handles = present
        self.enqueueable = tuple(handle for handle in present.values() if not handle.spec.is_dequeue_only)
        for name in present:
            self._missing_since.pop(name, None)
        for handle in gone:
            log.info("shard %s has left", handle.name)
            if handle.name not in present:
                self._note_missing(handle.name)
                if not handle.spec.is_dequeue_only:
                    log.warning(
                        "shard %s was not drained (dequeueOnly) before it left: its jobs, if it has any, are neither "
                        "shown nor handed out until it is in the shard file again",
                        handle.name,
                    )
            task = asyncio.create_task(handle.retire())
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def named(self, name: str) -> ShardHandle:
        """Return a shard.

        Raises:
            ShardConnectionFailed, UnknownError: there is no shard with that name; see ``missing``.
        """
        handle = self.find(name)
        if handle is None:
            known = ", ".join(map(repr, self._handles))
            raise self.missing(name, f"there is no shard {name!r} here, only {known}")
        return handle

    def find(self, name: str) -> ShardHandle | None:
        """Return a shard; None: it is not in the shard file."""
        if name not in self._handles:
            self.look_for_changes()
        return self._handles.get(name)

    def missing(self, name: str, text: str) -> ServiceError:
        """Return the error for a shard that is not in the shard file.

        Other servers may know the shard, as a change of the file reaches one after the other. So it counts as a shard
        that does not answer for some minutes, in which clients try other servers, and nobody takes it for removed.
        """
        since = self._note_missing(name)
        return UnknownError(text) if time.monotonic() - since > _SPREAD_SECONDS else ShardConnectionFailed(text)

    def _note_missing(self, name: str) -> float:
        """Return since when a shard is known to be missing."""
        since = self._missing_since.setdefault(name, time.monotonic())
        if len(self._missing_since) > _MOST_MISSING:
            del self._missing_since[next(iter(self._missing_since))]
        return since

    def healthy(self) -> list[ShardHandle]:
        """Return the healthy shards, in random order."""
        found = [handle for handle in self._handles.values() if handle.is_healthy]
        if len(found) > 1:
            random.shuffle(found)
        return found

    async def close(self) -> None:
        """Close all shards, including those being retired."""
        await asyncio.gather(*(handle.close() for handle in self._handles.values()), *self._retiring)
