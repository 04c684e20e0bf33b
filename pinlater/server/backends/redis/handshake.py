"""The first words on a new connection: is this the right server, and does it know our scripts?"""

from __future__ import annotations

import logging

from redis.asyncio import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from pinlater.server.backends.redis.cluster import refuse_cluster
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.redis.single_command import say

log = logging.getLogger(__name__)


async def greet(connection: Connection) -> None:
    """Make a new connection ready for work.

    Raises:
        RedisError: the server is a replica, has a part of a cluster's slots, or does not take scripts.
    """
    await _check_role(connection)
    await refuse_cluster(connection)
    for script in scripts().values():
        await connection.send_command("SCRIPT", "LOAD", script.text)
    for _ in scripts():
        await connection.read_response(disable_decoding=True)


async def _check_role(connection: Connection) -> None:
    try:
        role = (await say(connection, "ROLE"))[0]
    except ResponseError as error:  # a proxy, or not allowed to us; writing will tell
        log.debug("ROLE: %s", error)
        return
    if role != b"master":
        raise RedisConnectionError(f"this server is a {role.decode()}, not the master of the shard")
