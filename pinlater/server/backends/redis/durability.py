"""Warnings about Redis settings that can lose acknowledged jobs."""

from __future__ import annotations

import logging

from redis.exceptions import ResponseError

from pinlater.server.backends.redis.resp import RespConnection

log = logging.getLogger(__name__)

_SETTINGS = ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy")


_EVICTION = {
    "allkeys": "Redis evicts whole queues when its memory is full",
    "volatile": "when its memory is full, Redis forgets which calls it has carried out and which unique keys are taken",
}


class DurabilityCheck:
    """Reads the settings of a shard's server and warns about those that can lose jobs.

    Args:
        name: name of the shard.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._logged: list[str] | None = None

    async def run(self, connection: RespConnection) -> None:
        """Log the warnings if they differ from the last ones: after a failover, it may be another server."""
        try:
            pairs = [await connection.call("CONFIG", "GET", name) for name in _SETTINGS]
        except ResponseError as error:
            warnings = [f"CONFIG GET was refused ({error}), so its durability settings are unknown"]
        else:
            warnings = durability_warnings({pair[0].decode(): pair[1].decode() for pair in pairs if pair})
        if warnings != self._logged:
            self._logged = warnings
            for warning in warnings:
                log.warning("shard %s: %s", self._name, warning)


def durability_warnings(config: dict[str, str]) -> list[str]:
    """Return the warnings about these values of settings; missing settings are ignored."""
    warnings = []
    if config.get("appendonly") == "no":
        warnings.append(
            "appendonly is off: a crash loses every job since the last snapshot; set appendonly yes"
            if config.get("save")
            else "appendonly is off, and there are no snapshots: a restart loses every job; set appendonly yes"
        )
    elif config.get("appendfsync") == "no":
        warnings.append(
            "appendfsync is no: a power failure loses what the operating system has not written; "
            "set appendfsync everysec or always"
        )
    policy = config.get("maxmemory-policy", "noeviction")
    for kind, harm in _EVICTION.items():
        if policy.startswith(kind) and config.get("maxmemory") != "0":
            warnings.append(f"maxmemory-policy is {policy}: {harm}; set maxmemory-policy noeviction")
    return warnings
