"""The handshake on a new connection: checks that the server is the shard's master, and loads the scripts."""

from __future__ import annotations

import asyncio
import logging

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from pinlater.server.backends.redis.cluster import reject_cluster
from pinlater.server.backends.redis.resp import RespConnection
from pinlater.server.backends.redis.scripts import scripts

log = logging.getLogger(__name__)


async def handshake(connection: RespConnection) -> None:
    """Check the server of a new connection and load the scripts.

    Raises:
        RedisError: the server is a replica, is one of several masters of a cluster, or rejects scripts.
    """
    await _check_role(connection)
    await reject_cluster(connection)
    await asyncio.gather(*(connection.call("SCRIPT", "LOAD", script.text) for script in scripts().values()))


async def _check_role(connection: RespConnection) -> None:
    try:
        role = (await connection.call("ROLE"))[0]
    except ResponseError as error:  # a proxy, or the user lacks the permission; on a replica, the first write fails
        log.debug("ROLE: %s", error)
        return
    if role != b"master":
        raise RedisConnectionError(f"this server is a {role.decode()}, not the master of the shard")
