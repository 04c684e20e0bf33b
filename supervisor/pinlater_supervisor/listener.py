"""A small HTTP server on the master's own loop: for health checks and metrics, not for traffic.

No peer can block the loop: no call here waits, and size, number and life of connections are
bounded.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from time import monotonic

from pinlater_supervisor.http_connection import HttpConnection, Reply

Route = Callable[[], bytes]
"""Returns the text of a page; called on the master's loop, so it has to be quick."""

MOST_CONNECTIONS = 32
"""One more closes the oldest: a peer that hoards connections must not lock out health checks, which are quick."""
CONNECTION_SECONDS = 5.0
"""Longest life of a connection, whatever the peer does."""
PAUSE_SECONDS = 1.0
"""How long no connection is accepted after the process ran out of file descriptors."""
_BACKLOG = 64

log = logging.getLogger("pinlater_supervisor")


class Unavailable(Exception):
    """Raised by a route to reply 503 with this text."""


class HttpListener:
    """Serves pages of plain text over HTTP while a supervisor runs; it listens as soon as it is created.

    Args:
        host: name or address to listen on.
        port: 0 takes any free one.
        routes: path -> function that returns its page; more can be added with `route`.

    Raises:
        OSError: the address is taken or invalid.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, routes: Mapping[str, Route] | None = None) -> None:
        self._routes = dict(routes or {})
        self._socket = _listening_socket(host, port)
        self._connections: dict[HttpConnection, float] = {}
        self._selector: selectors.BaseSelector | None = None
        self._resume_at = inf

    @property
    def address(self) -> str:
        """Address it listens on, as `host:port`."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def route(self, path: str, route: Route) -> None:
        """Add a page at a path."""
        self._routes[path] = route

    def attach(self, selector: selectors.BaseSelector) -> None:
        """Join a loop, which calls the `data` of each ready key with its events, and `look` on each pass."""
        self._selector = selector
        self._listen()
        log.info("health checks at http://%s/livez and /readyz", self.address)

    def look(self, now: float) -> float:
        """Close overdue connections; return when to call again on the monotonic clock, inf for never."""
        for connection in [connection for connection, deadline in self._connections.items() if now >= deadline]:
            self._end(connection)
        if now >= self._resume_at:
            self._listen()
        return min([self._resume_at, *self._connections.values()])

    def close(self) -> None:
        """Close all sockets: after the loop has ended, or in a child, which must not touch the loop's selector."""
        for connection in self._connections:
            connection.socket.close()
        self._connections.clear()
        self._socket.close()

    # Connections

    @property
    def _loop(self) -> selectors.BaseSelector:
        assert self._selector is not None
        return self._selector

    def _listen(self) -> None:
        self._resume_at = inf
        self._loop.register(self._socket, selectors.EVENT_READ, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            peer, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        except OSError as error:
            log.warning("cannot accept a connection on %s: %s", self.address, error)
            self._loop.unregister(self._socket)  # it stays readable: the loop would spin
            self._resume_at = monotonic() + PAUSE_SECONDS
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            self._end(next(iter(self._connections)))
        peer.setblocking(False)
        connection = HttpConnection(peer, self._answer)
        self._connections[connection] = monotonic() + CONNECTION_SECONDS
        self._try_step(connection, lambda: self._loop.register(peer, connection.wants, self._advancing(connection)))

    def _advancing(self, connection: HttpConnection) -> Callable[[int], None]:
        def advance(_events: int) -> None:
            if connection in self._connections:  # else it was closed for a newer one in this pass of the loop
                self._try_step(connection, lambda: self._advance(connection))

        return advance

    def _advance(self, connection: HttpConnection) -> None:
        before = connection.wants
        connection.advance()
        if connection.is_over:
            self._end(connection)
        elif connection.wants != before:
            self._loop.modify(connection.socket, connection.wants, self._advancing(connection))

    def _try_step(self, connection: HttpConnection, step: Callable[[], object]) -> None:
        """Take a step of a connection; an error closes this connection only."""
        try:
            step()
        except OSError:  # the peer broke the connection
            self._end(connection)
        except Exception:
            log.exception("a connection to %s failed", self.address)
            self._end(connection)

    def _end(self, connection: HttpConnection) -> None:
        del self._connections[connection]
        with suppress(KeyError, OSError):
            self._loop.unregister(connection.socket)
        with suppress(OSError):
            connection.socket.close()

    # Pages

    def _answer(self, path: str) -> Reply:
        route = self._routes.get(path)
        if route is None:
            return Reply(404, f"no such page; available: {', '.join(sorted(self._routes))}\n".encode())
        try:
            return Reply(200, route())
        except Unavailable as reason:
            return Reply(503, f"{reason}\n".encode())
        except Exception:
            log.exception("page %s failed", path)
            return Reply(500, b"this page failed; see the log\n")


def is_address_missing(error: OSError) -> bool:
    """Tell whether a socket cannot listen because its address is missing; it may be there later.

    While a machine starts, its addresses are not assigned yet, and no name server answers.
    """
    return error.errno in {errno.EADDRNOTAVAIL, socket.EAI_AGAIN}


def _listening_socket(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
