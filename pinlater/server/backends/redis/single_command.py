"""One command at a time on a connection that nobody shares yet."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Connection


async def say(connection: Connection, *command: Any) -> Any:
    """Send a command; return its answer.

    Raises:
        RedisError: of the connection, or the server refused.
    """
    await connection.send_command(*command)
    return await connection.read_response(disable_decoding=True)
