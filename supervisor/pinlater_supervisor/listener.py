"""A small HTTP server on the master's own loop: for probes and figures, not for traffic.

Whatever a peer does, it cannot hold the loop up: no call here waits, and size, number and life of connections are
bounded.
"""

from __future__ import annotations

import logging
import selectors
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from time import monotonic

from pinlater_supervisor.http_connection import Exchange, Reply

Route = Callable[[], bytes]
"""Makes the text of a page; called on the master's loop, so it has to be quick."""

MOST_CONNECTIONS = 32
"""A further one ends the oldest: a peer that hoards connections must not lock out probes, which are done at once."""
CONNECTION_SECONDS = 5.0
"""From accepting a connection to its end, whatever the peer does."""
PAUSE_SECONDS = 1.0
"""Without accepting, when the system has no descriptor to give."""
_BACKLOG = 64

log = logging.getLogger("pinlater_supervisor")


class Unavailable(Exception):
    """Raised by a route to answer 503 with this text."""


class HttpListener:
    """Listens from the start, answers while a supervisor runs; each request gets one page of plain text.

    Args:
        host: name or address to listen on.
        port: 0 takes any free one.
        routes: path -> what makes its page; more can be added with `route`.

    Raises:
        OSError: the address cannot be had.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, routes: Mapping[str, Route] | None = None) -> None:
        self._routes = dict(routes or {})
        self._socket = _bound(host, port)
        self._exchanges: dict[Exchange, float] = {}
        self._selector: selectors.BaseSelector | None = None
        self._resume_at = inf

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def route(self, path: str, route: Route) -> None:
        """Add a page."""
        self._routes[path] = route

    def attach(self, selector: selectors.BaseSelector) -> None:
        """Be served by a loop: it calls the `data` of each key that is ready with its events, and `look` each turn."""
        self._selector = selector
        self._listen()
        log.info("health at http://%s/livez and /readyz", self.address)

    def look(self, now: float) -> float:
        """End what is overdue; the moment of the next look on the monotonic clock, inf if none is due ever."""
        for exchange in [exchange for exchange, deadline in self._exchanges.items() if now >= deadline]:
            self._end(exchange)
        if now >= self._resume_at:
            self._listen()
        return min([self._resume_at, *self._exchanges.values()])

    def close(self) -> None:
        """Let go of all sockets: when the loop has ended, or in a child, which must leave the loop's selector alone."""
        for exchange in self._exchanges:
            exchange.socket.close()
        self._exchanges.clear()
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
            self._loop.unregister(self._socket)  # it stays readable: the loop would turn without rest
            self._resume_at = monotonic() + PAUSE_SECONDS
            return
        if len(self._exchanges) >= MOST_CONNECTIONS:
            self._end(next(iter(self._exchanges)))
        peer.setblocking(False)
        exchange = Exchange(peer, self._answer)
        self._exchanges[exchange] = monotonic() + CONNECTION_SECONDS
        self._guard(exchange, lambda: self._loop.register(peer, exchange.wants, self._advancing(exchange)))

    def _advancing(self, exchange: Exchange) -> Callable[[int], None]:
        def advance(_events: int) -> None:
            if exchange in self._exchanges:  # else it made room for one that came in the same turn of the loop
                self._guard(exchange, lambda: self._advance(exchange))

        return advance

    def _advance(self, exchange: Exchange) -> None:
        before = exchange.wants
        exchange.advance()
        if exchange.is_over:
            self._end(exchange)
        elif exchange.wants != before:
            self._loop.modify(exchange.socket, exchange.wants, self._advancing(exchange))

    def _guard(self, exchange: Exchange, step: Callable[[], object]) -> None:
        """Take a step of a connection; if it fails, that is the end of this connection and of nothing else."""
        try:
            step()
        except OSError:  # the peer's business
            self._end(exchange)
        except Exception:
            log.exception("a connection to %s failed", self.address)
            self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        del self._exchanges[exchange]
        with suppress(KeyError, OSError):
            self._loop.unregister(exchange.socket)
        with suppress(OSError):
            exchange.socket.close()

    # Pages

    def _answer(self, path: str) -> Reply:
        route = self._routes.get(path)
        if route is None:
            return Reply(404, f"no such page; there are {', '.join(sorted(self._routes))}\n".encode())
        try:
            return Reply(200, route())
        except Unavailable as reason:
            return Reply(503, f"{reason}\n".encode())
        except Exception:
            log.exception("the page %s failed", path)
            return Reply(500, b"this page failed; the log says why\n")


def _bound(host: str, port: int) -> socket.socket:
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
