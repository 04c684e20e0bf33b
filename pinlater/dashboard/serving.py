"""uvicorn under a supervisor: it serves on a socket that is there, and stops when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from operator import attrgetter
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pinlater.dashboard.app import make_app
from pinlater.dashboard.options import Options

MAX_CONNECTIONS = 128
MAX_HEAD_BYTES = 16 * 1024
READ_SECONDS = 20.0
_ENDING = 32
"""Requests of connections that had to go, and have not come to their end yet."""

_KEEP_ALIVE_SECONDS = 15
_STOP_SECONDS = 3


async def serve(
    options: Options,
    listener: socket.socket,
    until: Callable[[], Awaitable[None]],
    *,
    read_seconds: float = READ_SECONDS,
) -> None:
    """Serve the dashboard.

    Args:
        options: of it.
        listener: a socket that listens.
        until: returns when it is to stop.
        read_seconds: a request has to be there within this time.
    """
    config = uvicorn.Config(
        make_app(options),
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",  # what it says of its start, the server says, too
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS + _ENDING,  # more are there only if all are being answered
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    config.load()
    config.ssl = options.tls
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    sweeping = asyncio.create_task(server.sweep(read_seconds))
    try:
        await until()
    finally:
        server.should_exit = True
        sweeping.cancel()
        await asyncio.wait([serving, sweeping])


class _Protocol(H11Protocol):
    """One connection; when there are too many, the one that has sent nothing, and waits for nothing, for longest goes.

    Otherwise a few that are opened and left alone would keep everybody out, health checks included.
    """

    heard_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Make room, if need be."""
        super().connection_made(transport)
        self.heard_at = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS:
            idle = [one for one in self.connections if one is not self and _is_reading(one)]
            if idle:
                eldest: Any = min(idle, key=attrgetter("heard_at"))
                self.connections.discard(eldest)
                eldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Note that something came."""
        self.heard_at = self.loop.time()
        super().data_received(data)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the supervisor."""
        yield

    async def sweep(self, read_seconds: float) -> None:
        """Close connections on which a request was begun, or not even that, and does not come to an end."""
        waiting: dict[tuple[Any, Any], float] = {}  # connection and its latest request -> since when
        while True:
            await asyncio.sleep(min(1.0, read_seconds))
            now = asyncio.get_running_loop().time()
            connections: set[Any] = self.server_state.connections  # of uvicorn's protocol for h11
            idle = [(one, one.cycle) for one in connections if _is_reading(one)]
            waiting = {key: waiting.get(key, now) for key in idle}
            for (one, _), since in waiting.items():
                if now - since > read_seconds:
                    one.transport.abort()


def _is_reading(connection: Any) -> bool:
    """Whether a connection waits for its peer: for a request, or for the rest of one."""
    request = connection.cycle
    return request is None or request.response_complete or request.more_body
