"""One HTTP request and its reply, on a socket that never blocks."""

from __future__ import annotations

import re
import selectors
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

MOST_REQUEST_BYTES = 4096
"""Limit of request line and headers together; bodies are not read."""
MOST_IGNORED_BYTES = 65536
"""Bytes a peer may send after its request: closing with unread data would reset the connection and lose the reply."""
_READ_BYTES = 4096

_HEAD = re.compile(rb"\r?\n\r?\n")
_REQUEST = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.[0-9]\r?\n")


class Reply(NamedTuple):
    """An HTTP status and the text of a page."""

    status: int
    body: bytes


class HttpConnection:
    """Reads a request, writes the reply and waits for the peer to close, one step per event.

    Attributes:
        socket: the connection.
        wants: the selector events to call `advance` for.
        is_over: whether the connection should be closed.
    """

    def __init__(self, peer: socket.socket, answer: Callable[[str], Reply]) -> None:
        self.socket = peer
        self.wants = selectors.EVENT_READ
        self.is_over = False
        self._answer = answer
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._has_replied = False
        self._ignored = 0

    def advance(self) -> None:
        """Take the next step that needs no waiting.

        Raises:
            OSError: the connection is broken.
        """
        try:
            if self._unsent:
                self._send()
            elif self._has_replied:
                self._ignore()
            else:
                self._receive()
        except (BlockingIOError, InterruptedError):
            return

    def _receive(self) -> None:
        data = self.socket.recv(_READ_BYTES)
        self._received += data
        if _HEAD.search(self._received):
            reply, has_body = _answered(bytes(self._received), self._answer)
            self._reply(reply, has_body=has_body)
        elif not data:
            self.is_over = True
        elif len(self._received) > MOST_REQUEST_BYTES:
            self._reply(Reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the request is too large\n"))

    def _reply(self, reply: Reply, *, has_body: bool = True) -> None:
        self._has_replied = True
        self._unsent = memoryview(_head(reply) + (reply.body if has_body else b""))
        self.wants = selectors.EVENT_WRITE
        self._send()

    def _send(self) -> None:
        self._unsent = self._unsent[self.socket.send(self._unsent) :]
        if not self._unsent:
            self.socket.shutdown(socket.SHUT_WR)
            self.wants = selectors.EVENT_READ

    def _ignore(self) -> None:
        data = self.socket.recv(_READ_BYTES)
        self._ignored += len(data)
        self.is_over = not data or self._ignored > MOST_IGNORED_BYTES


def _answered(request: bytes, answer: Callable[[str], Reply]) -> tuple[Reply, bool]:
    """Return the reply to a request, and whether its body is sent."""
    found = _REQUEST.match(request)
    if found is None:
        return Reply(HTTPStatus.BAD_REQUEST, b"not an HTTP/1 request\n"), True
    method, target = found[1].decode(), found[2].decode()
    if method not in {"GET", "HEAD"}:
        return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD are allowed\n"), True
    return answer(target.partition("?")[0]), method == "GET"


def _head(reply: Reply) -> bytes:
    status = HTTPStatus(reply.status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(reply.body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if status == HTTPStatus.METHOD_NOT_ALLOWED else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()
