"""The handshake on a new connection: checks that the server is the shard's master, and loads the scripts."""

from __future__ import annotations

import logging

from redis.asyncio import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from pinlater.server.backends.redis.cluster import reject_cluster
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.redis.single_command import run_command

log = logging.getLogger(__name__)


async def handshake(connection: Connection) -> None:
    """Check the server of a new connection and load the scripts.

    Raises:
        RedisError: the server is a replica, is one of several masters of a cluster, or rejects scripts.
    """
    await _check_role(connection)
    await reject_cluster(connection)
    for script in scripts().values():
        await connection.send_command("SCRIPT", "LOAD", script.text)
    for _ in scripts():
        await connection.read_response(disable_decoding=True)


async def _check_role(connection: Connection) -> None:
    try:
        role = (await run_command(connection, "ROLE"))[0]
    except ResponseError as error:  # a proxy, or the user may not ask; if it is a replica, the first write fails
        log.debug("ROLE: %s", error)
        return
    if role != b"master":
        raise RedisConnectionError(f"this server is a {role.decode()}, not the master of the shard")
