"""uvicorn under a supervisor: it serves on a given socket and stops on request."""

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
from pinlater.dashboard.options import DashboardOptions

MAX_CONNECTIONS = 128
MAX_HEAD_BYTES = 16 * 1024
READ_SECONDS = 20.0
_ENDING = 32
"""Most unfinished requests of closed connections."""

_KEEP_ALIVE_SECONDS = 15
_STOP_SECONDS = 3
_FIRST_REQUEST_SECONDS = 1.0
_POLL_SECONDS = 0.02
_DATE_SECONDS = 1.0
"""How often the Date of the answers is set."""

_TURNS_TO_CONNECT = 3
"""Turns of the event loop until a connection that it has accepted is known to uvicorn."""


async def serve(
    options: DashboardOptions,
    listener: socket.socket,
    until: Callable[[], Awaitable[None]],
    *,
    read_seconds: float = READ_SECONDS,
) -> None:
    """Serve the dashboard.

    Args:
        options: options of the dashboard.
        listener: listening socket.
        until: returns when the dashboard is to stop.
        read_seconds: time limit for receiving a request.
    """
    config = uvicorn.Config(
        make_app(options),
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",  # the server logs the start itself
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS + _ENDING,  # exceeded only if all are being answered
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    config.load()
    config.ssl = options.tls
    server = _SupervisedServer(config)
    serving = asyncio.create_task(server.serve([listener]))
    sweeping = asyncio.create_task(server.sweep(read_seconds))
    try:
        await until()
    finally:
        server.end()
        sweeping.cancel()
        await asyncio.wait([serving, sweeping])


class _Protocol(H11Protocol):
    """A connection; if there are too many, the longest idle one is closed.

    Otherwise a few idle connections could lock everybody out, health checks included.
    """

    heard_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Close an idle connection if there are too many."""
        super().connection_made(transport)
        self.heard_at = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS:
            idle = [one for one in self.connections if one is not self and _is_reading(one)]
            if idle:
                eldest: Any = min(idle, key=attrgetter("heard_at"))
                self.connections.discard(eldest)
                eldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Record the time of the last data."""
        self.heard_at = self.loop.time()
        super().data_received(data)


class _SupervisedServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let it stop."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Set the Date until it is to stop, at once; uvicorn would look for that ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the supervisor."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; wait shortly for the requests of connections that are new, which uvicorn would close without a look."""
        for listening in (one for server in self.servers for one in server.sockets):
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_REQUEST_SECONDS):
                connections: set[Any] = self.server_state.connections
                while any(one.cycle is None for one in connections):  # noqa: ASYNC110 - uvicorn tells nobody
                    await asyncio.sleep(_POLL_SECONDS)
        await super().shutdown(sockets)

    async def sweep(self, read_seconds: float) -> None:
        """Close connections whose request does not arrive in time."""
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
    """Whether a connection waits for a request, or for the rest of one."""
    request = connection.cycle
    return request is None or request.response_complete or request.more_body
