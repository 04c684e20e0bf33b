"""Delivers messages from the shards on which jobs have left them to the shards of the jobs that they are for.

A message is stored in the transaction of what it tells of, delivered as often as it takes, and deleted once it is
delivered. The second time it changes nothing, since its name and id are known by then. So it arrives once, whichever
server or shard dies in between.
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
    """From one shard to another, by their names."""

    source: str
    target: str
    left_for_ms: int | None = None
    """Only messages that are there for so long."""


_LEFT_FOR_MS = 5000
"""Messages that are there for so long were left by a server that died, or wait for a shard that was away."""


class MessageRelay:
    """Delivers messages, on each route one page after the other.

    Args:
        registry: the shards.
    """

    def __init__(self, registry: ShardRegistry) -> None:
        self._registry = registry
        self._tasks: dict[_Route, asyncio.Task[None]] = {}
        self._more: set[_Route] = set()

    def start(self, source: str, targets: Iterable[str], *, left_for_ms: int | None = None) -> None:
        """Begin to deliver the messages that this server has left on ``source`` for these shards, or others have."""
        for target in targets:
            route = _Route(source, target, left_for_ms)
            self._more.add(route)
            if route not in self._tasks:
                self._tasks[route] = asyncio.create_task(self._deliver(route))

    async def start_all(self) -> None:
        """Begin to deliver the messages that were left behind."""
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
        """Deliver what is there; what fails is left for the next time."""
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
            del self._tasks[route]  # here: between this and the last look, nobody can have asked for more

    async def _deliver_page(self, route: _Route) -> bool:
        """Deliver the oldest messages; return whether there were some."""
        source, target = self._registry.named(route.source), self._registry.named(route.target)
        messages = await source.ask(lambda shard: shard.outgoing_messages(target.name, route.left_for_ms))
        if messages:
            await target.ask(lambda shard: shard.deliver_messages(messages))
            await source.ask(lambda shard: shard.forget_outgoing(target.name, messages))
        return bool(messages)

    async def close(self) -> None:
        """Stop; what is not delivered is left for another server, or the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
