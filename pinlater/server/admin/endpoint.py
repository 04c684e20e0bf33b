"""Serve the admin port without the dashboard: metrics and health checks, read-only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

from pinlater.server.admin.http import BadRequest, Request, Response, end_of_head, parse_head
from pinlater.server.admin.pages import MonitoringPages
from pinlater.server.admin.reports import CollectStatus

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 8192
READ_SECONDS = 5.0
WRITE_SECONDS = 10.0
CLOSE_SECONDS = 1.0
"""How long answers in progress may take at the end, so that a probe during a reload is answered."""

_LINGER_SECONDS = 1.0
_TURNS_TO_CONNECT = 3
"""Turns of the event loop until a connection that it has accepted is known here."""

_INDEX = """\
PinLater server

/livez      200 as long as the server runs
/readyz     200 if the server takes calls, else 503 and the reason
/metrics    metrics for Prometheus
/stats.txt  metrics in the format of the original service

To get the dashboard: pip install 'pinlater[dashboard]', then restart the server with DASHBOARD=true (the default).
"""


class AdminEndpoint:
    """Serves the monitoring pages.

    Args:
        collect_status: collects the reports of the server processes.
        read_seconds: how long a client may take to send its request.

    Attributes:
        port: the TCP port; 0 until it has started.
    """

    def __init__(self, collect_status: CollectStatus, *, read_seconds: float = READ_SECONDS) -> None:
        self._read_seconds = read_seconds
        self._server: asyncio.Server | None = None
        self.port = 0
        self._answering: set[asyncio.Task[None]] = set()
        self._reading: dict[
            asyncio.Task[None], asyncio.StreamWriter
        ] = {}  # connections without a request yet, in order of arrival
        self._pages: dict[str, Callable[[], Awaitable[Response]]] = {
            "/": self._index,
            **MonitoringPages(collect_status).by_path,
        }

    async def start(self, host: str | None = None, port: int = 0, *, sock: socket.socket | None = None) -> None:
        """Listen on an address, or on a listening socket."""
        where = {"sock": sock} if sock else {"host": host, "port": port}
        self._server = await asyncio.start_server(self._connected, limit=MAX_HEAD_BYTES, **where)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, answer received requests, and close all connections; may be called twice."""
        if self._server is not None:
            await self._accept_no_more(self._server)
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSE_SECONDS)
        for task in self._answering:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering)

    async def _accept_no_more(self, server: asyncio.Server) -> None:
        """Stop listening; asyncio would drop what it has accepted, but not yet handed over, if it closed at once."""
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
        server.close()

    # One connection

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._answering) >= MAX_CONNECTIONS and not self._drop_oldest_idle():
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._answering.add(task)
        self._reading[task] = writer
        task.add_done_callback(self._forget)

    def _drop_oldest_idle(self) -> bool:
        """Drop the oldest connection without a request, so that idle connections cannot block the port."""
        if not self._reading:
            return False
        eldest, writer = next(iter(self._reading.items()))
        self._forget(eldest)
        eldest.cancel()
        writer.transport.abort()  # here, since the task may not have started yet
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._reading.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request, response = await self._answer(reader)
            # With a limit of 0, drain() waits until everything is sent, within the deadline.
            writer.transport.set_write_buffer_limits(high=0)
            async with asyncio.timeout(WRITE_SECONDS):
                writer.write(response.to_bytes(with_body=request is None or request.method != "HEAD"))
                await writer.drain()
                writer.write_eof()
            if request is None or request.method not in {"GET", "HEAD"}:
                await _linger(reader)
        except (OSError, TimeoutError):
            log.debug("a client of the admin port disconnected or did not read its answer")
        finally:
            writer.transport.abort()  # everything is sent by now, or never will be

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Request | None, Response]:
        """Read the request; return it, if it is valid, and its answer."""
        try:
            async with asyncio.timeout(self._read_seconds):
                request = parse_head(await _read_head(reader))
        except TimeoutError:
            return None, Response(HTTPStatus.REQUEST_TIMEOUT)
        except BadRequest:
            return None, Response(HTTPStatus.BAD_REQUEST)
        self._reading.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
        return request, await self._page(request)

    async def _page(self, request: Request) -> Response:
        page = self._pages.get(request.path)
        if page is None:
            return Response(HTTPStatus.NOT_FOUND, f"there is no page {request.path[:100]}; / lists the pages\n")
        if request.method not in {"GET", "HEAD"}:
            return Response(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return await page()
        except Exception:
            log.exception("the page %s could not be rendered", request.path)
            return Response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the page could not be rendered; see the log of the server\n"
            )

    async def _index(self) -> Response:
        return Response(HTTPStatus.OK, _INDEX)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    head = bytearray()
    while (end := end_of_head(head)) < 0:
        chunk = await reader.read(MAX_HEAD_BYTES)
        head += chunk
        if not head[:1].isupper():  # no method begins so: a client of the service, or of TLS, which waits for an answer
            raise BadRequest
        if not chunk or (len(head) > MAX_HEAD_BYTES and end_of_head(head) < 0):
            raise BadRequest
    return bytes(head[:end])


async def _linger(reader: asyncio.StreamReader) -> None:
    """Read on for a moment: closing with unread data would reset the connection, and lose the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await reader.read(MAX_HEAD_BYTES):
                pass
