"""Delivers messages from the shards on which they were left to the shards of the jobs that they are for.

A message is stored in the transaction of the change it reports, sent until its delivery succeeds, and then deleted. A
second delivery changes nothing, since its name and id are known by then. So it arrives once, whichever server or shard
dies in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from pinlater.errors import ServiceError
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())


class _Route(NamedTuple):
    """The names of the shard that has messages and of the one that gets them."""

    source: str
    target: str
    left_for_ms: int | None
    """Only deliver messages that have been there for this long."""


_LEFT_FOR_MS = 5000
"""Messages that have been there for this long were left by a server that died, or wait for a shard that was down."""


class MessageRelay:
    """Delivers messages, one page after the other on each route.

    Args:
        registry: the shards.
    """

    def __init__(self, registry: ShardRegistry) -> None:
        self._registry = registry
        self._tasks: dict[_Route, asyncio.Task[None]] = {}
        self._more: set[_Route] = set()

    def start(self, source: str, targets: Iterable[str], *, left_for_ms: int | None = None) -> None:
        """Begin to deliver this process's messages from ``source`` to these shards; with ``left_for_ms``, anyone's."""
        for target in targets:
            route = _Route(source, target, left_for_ms)
            self._more.add(route)
            if route not in self._tasks:
                self._tasks[route] = asyncio.create_task(self._deliver(route))

    async def start_all(self) -> None:
        """Begin to deliver the messages that were left behind, from all healthy shards."""
        if len(self._registry) > 1:
            await asyncio.gather(*map(self._start_from, self._registry.healthy()))

    async def _start_from(self, source: ShardHandle) -> None:
        reachable = {handle.name for handle in self._registry.healthy()}
        try:
            targets = await source.ask(lambda shard: shard.outgoing_shards())
        except ServiceError as error:
            log.warning("messages to jobs on other shards may wait on shard %s: %s", source.name, error)
        else:
            self.start(source.name, targets & reachable, left_for_ms=_LEFT_FOR_MS)

    async def _deliver(self, route: _Route) -> None:
        """Deliver what is there; what fails is left for next time."""
        try:
            while route in self._more:
                self._more.discard(route)
                if await self._deliver_page(route):
                    self._more.add(route)
        except ServiceError as error:
            log.warning("messages to jobs on shard %s wait on shard %s: %s", route.target, route.source, error)
        except Exception:
            log.exception("messages to jobs on shard %s wait on shard %s", route.target, route.source)
        finally:
            del self._tasks[route]  # here, since nobody can have asked for more since the last check

    async def _deliver_page(self, route: _Route) -> bool:
        """Deliver the oldest messages; return whether there were any."""
        source, target = self._registry.named(route.source), self._registry.named(route.target)
        messages = await source.ask(lambda shard: shard.outgoing_messages(target.name, route.left_for_ms))
        if messages:
            await target.ask(lambda shard: shard.deliver_messages(messages))
            await source.ask(lambda shard: shard.forget_outgoing(target.name, messages))
        return bool(messages)

    async def close(self) -> None:
        """Stop; undelivered messages are left for another server, or the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
