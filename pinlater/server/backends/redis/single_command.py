"""One command at a time on a connection that is not shared yet."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Connection


async def run_command(connection: Connection, *command: Any) -> Any:
    """Send a command and return its answer.

    Raises:
        RedisError: the connection failed, or the server refused the command.
    """
    await connection.send_command(*command)
    return await connection.read_response(disable_decoding=True)
