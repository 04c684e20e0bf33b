"""The admin port without the dashboard: pages for scrapers and health checks. It reads; it changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

from pinlater.server.admin.http import BadRequest, Request, Response, end_of_head, parse_head
from pinlater.server.admin.pages import MachinePages
from pinlater.server.admin.reports import View

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 8192
READ_SECONDS = 5.0
WRITE_SECONDS = 10.0
CLOSE_SECONDS = 1.0
"""What is being answered at the end has this long: a probe that comes during a reload is to have its answer."""

_LINGER_SECONDS = 1.0

_INDEX = """\
PinLater server

/livez      200 as long as the server runs
/readyz     200 if it takes calls, else 503 and the reason
/metrics    metrics for Prometheus
/stats.txt  metrics in the form of the original service

There is a dashboard, too: pip install 'pinlater[dashboard]', then restart the server (and leave DASHBOARD=true).
"""


class AdminEndpoint:
    """Serves the pages on a port of its own.

    Args:
        look: returns what the server processes say of themselves.
        read_seconds: a request has to be complete within this time.
    """

    def __init__(self, look: Callable[[], Awaitable[View]], *, read_seconds: float = READ_SECONDS) -> None:
        self._read_seconds = read_seconds
        self._server: asyncio.Server | None = None
        self._port = 0
        self._answering: set[asyncio.Task[None]] = set()
        self._reading: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # who has not asked yet, in order of arrival
        self._pages: dict[str, Callable[[], Awaitable[Response]]] = {"/": self._index, **MachinePages(look).by_path}

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._port

    async def start(self, host: str | None = None, port: int = 0, *, sock: socket.socket | None = None) -> None:
        """Listen on an address, or on a socket that listens already."""
        where = {"sock": sock} if sock else {"host": host, "port": port}
        self._server = await asyncio.start_server(self._connected, limit=MAX_HEAD_BYTES, **where)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, answer who has asked, and end all connections; may be called twice."""
        if self._server is not None:
            self._server.close()
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSE_SECONDS)
        for task in self._answering:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering)

    # One connection

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._answering) >= MAX_CONNECTIONS and not self._make_room():
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._answering.add(task)
        self._reading[task] = writer
        task.add_done_callback(self._forget)

    def _make_room(self) -> bool:
        """Let go of who has asked for nothing for longest: a few that only connect are not to keep out everybody."""
        if not self._reading:
            return False
        eldest, writer = next(iter(self._reading.items()))
        self._forget(eldest)
        eldest.cancel()
        writer.transport.abort()  # not left to the task: of many that come at once, it may not have begun
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._reading.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request, response = await self._answer(reader)
            # So that drain() means that all is sent, and its deadline holds for the whole answer.
            writer.transport.set_write_buffer_limits(high=0)
            async with asyncio.timeout(WRITE_SECONDS):
                writer.write(response.to_bytes(with_body=request is None or request.method != "HEAD"))
                await writer.drain()
                writer.write_eof()
            if request is None or request.method not in {"GET", "HEAD"}:
                await _linger(reader)
        except (OSError, TimeoutError):
            log.debug("a peer of the admin port went away or did not read its answer")
        finally:
            writer.transport.abort()  # whatever was to be sent has been, or never will be

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Request | None, Response]:
        """Return the request, if there was one, and its answer."""
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
            return Response(HTTPStatus.NOT_FOUND, f"no page {request.path[:100]}; see /\n")
        if request.method not in {"GET", "HEAD"}:
            return Response(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return await page()
        except Exception:
            log.exception("the page %s could not be made", request.path)
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, "the page could not be made; the server's log has why\n")

    async def _index(self) -> Response:
        return Response(HTTPStatus.OK, _INDEX)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    head = bytearray()
    while (end := end_of_head(head)) < 0:
        chunk = await reader.read(MAX_HEAD_BYTES)
        head += chunk
        if not chunk or (len(head) > MAX_HEAD_BYTES and end_of_head(head) < 0):
            raise BadRequest
    return bytes(head[:end])


async def _linger(reader: asyncio.StreamReader) -> None:
    """Read what is left for a moment: closing over unread bytes would reset the connection, answer and all."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await reader.read(MAX_HEAD_BYTES):
                pass
