"""Parse and build minimal HTTP for read-only pages: one GET or HEAD per connection."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import NamedTuple

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) HTTP/1\.[01]")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*")

PLAIN_TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """The method and path of a request, without the query."""

    method: str
    path: str


class Response(NamedTuple):
    """An HTTP response."""

    status: HTTPStatus
    body: str = ""
    content_type: str = PLAIN_TEXT

    def to_bytes(self, *, with_body: bool = True) -> bytes:
        """Encode head and body, or the head alone for HEAD."""
        body = (self.body or f"{self.status.value} {self.status.phrase}\n").encode()
        head = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if self.status == HTTPStatus.METHOD_NOT_ALLOWED:
            head.append("Allow: GET, HEAD")
        return "\r\n".join((*head, "", "")).encode("ascii") + (body if with_body else b"")


class BadRequest(Exception):
    """The bytes are not an HTTP request."""


def end_of_head(data: bytes | bytearray) -> int:
    """Return the length of the head, or -1 if it is incomplete; lines typed by hand may end with a line feed alone."""
    ends = [data.find(mark) for mark in (b"\r\n\r\n", b"\n\n")]
    return min((end for end in ends if end >= 0), default=-1)


def parse_head(head: bytes) -> Request:
    """Parse the head of a request.

    Raises:
        BadRequest: it is not valid HTTP.
    """
    first, *headers = head.replace(b"\r\n", b"\n").split(b"\n")
    match = _REQUEST_LINE.fullmatch(first)
    if not match or not all(_HEADER.fullmatch(header) for header in headers):
        raise BadRequest
    path = match[2].partition(b"?")[0].decode("ascii")
    return Request(match[1].decode("ascii"), path)
