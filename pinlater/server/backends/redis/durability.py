"""What a Redis server's settings mean for jobs that were acknowledged; said once, when it is first met."""

from __future__ import annotations

import logging

from redis.asyncio import Connection
from redis.exceptions import ResponseError

from pinlater.server.backends.redis.single_command import say

log = logging.getLogger(__name__)

_ASKED = ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy")


class DurabilityCheck:
    """Looks at the settings of a shard's server, and warns of those that can cost jobs.

    Args:
        name: of the shard.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._said: list[str] | None = None

    async def look(self, connection: Connection) -> None:
        """Warn, unless the same was said before: after a fail-over it may be another server."""
        try:
            found = [await say(connection, "CONFIG", "GET", name) for name in _ASKED]
        except ResponseError as error:
            doubts = [f"CONFIG GET is refused ({error}), so nobody knows what it keeps after a crash"]
        else:
            doubts = doubts_of({pair[0].decode(): pair[1].decode() for pair in found if pair})
        if doubts != self._said:
            self._said = doubts
            for doubt in doubts:
                log.warning("shard %s: %s", self._name, doubt)


def doubts_of(config: dict[str, str]) -> list[str]:
    """Return what to warn of, given the values of settings; one that is missing is not judged."""
    doubts = []
    if config.get("appendonly") == "no":
        doubts.append(
            "appendonly is off: a crash loses every job since the last snapshot; set appendonly yes"
            if config.get("save")
            else "appendonly is off, and there are no snapshots: a restart loses every job; set appendonly yes"
        )
    elif config.get("appendfsync") == "no":
        doubts.append("appendfsync is no: a power cut loses what the system has not written; set everysec or always")
    policy = config.get("maxmemory-policy", "noeviction")
    if policy.startswith("allkeys") and config.get("maxmemory") != "0":
        doubts.append(f"maxmemory-policy is {policy}: whole queues are dropped when memory is full; set noeviction")
    return doubts
