"""Fields of forms and query strings, read within bounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from pinlater.client.keyed_client import derived_key, new_key

KEY_FIELD = "once"
"""Name of the hidden field that tells a form that is sent twice from two equal forms."""

MAX_FORM_BYTES = 256 * 1024
MAX_FIELDS = 1100
_READ_SECONDS = 10.0
_FORM_TYPE = "application/x-www-form-urlencoded"
_HEX = re.compile("[0-9a-f]*")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
"""A number with commas between thousands; in many countries, a comma at another place is a decimal one."""


class RequestRefused(Exception):
    """A request is refused.

    Attributes:
        status: HTTP status.
        back: path of the page to return to; empty for the first page.
    """

    def __init__(self, status: int, message: str, back: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.back = back


class Form:
    """Fields of a POST.

    Args:
        pairs: names and values in order; a name may be repeated.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    @property
    def key(self) -> bytes:
        """An idempotency key: the same if a page sends the form again as it is, by a second click or a reload."""
        fresh, given = new_key(), self.text(KEY_FIELD)
        if len(given) != 2 * len(fresh) or not _HEX.fullmatch(given):  # a program has sent the form
            return fresh
        return derived_key(bytes.fromhex(given), repr(self._pairs).encode("utf-8", "replace"))

    def text(self, name: str, most: int = 1024) -> str:
        """Return the first value of a field, stripped; empty if the field is missing.

        Raises:
            RequestRefused: the value is too long.
        """
        return self.raw(name, most).strip()

    def raw(self, name: str, most: int = 1024) -> str:
        """Return the first value of a field with its spaces; otherwise like ``text``."""
        return bounded(name, next((value for key, value in self._pairs if key == name), ""), most)

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for key, value in self._pairs if key == name]

    def number(self, name: str, lowest: float, highest: float, read: Callable[[str], float] = float) -> float | None:
        """Return the number in a field, perhaps with commas between thousands; None if the field is empty.

        Raises:
            RequestRefused: the value is not a number, or out of range.
        """
        text = self.text(name, 40)
        if _THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        return None if not text else number(name, text, lowest, highest, read)


def number(name: str, text: str, lowest: float, highest: float, read: Callable[[str], float] = float) -> float:
    """Parse a number.

    Raises:
        RequestRefused: the text is not a number, or out of range.
    """
    try:
        value = read(text)
    except ValueError:
        raise RequestRefused(400, f"{name} is not a number: {text[:40]}") from None
    if not lowest <= value <= highest:  # also of nan
        raise RequestRefused(400, f"{name} must be from {lowest:,g} to {highest:,g}")
    return value


def bounded(name: str, text: str, most: int) -> str:
    """Return ``text`` unless it is too long.

    Raises:
        RequestRefused: it is too long.
    """
    if len(text) > most:
        raise RequestRefused(400, f"{name} has more than {most:,} characters")
    return text


def query_text(request: Request, name: str, most: int = 1024) -> str:
    """Return a parameter of the query string, stripped; empty if it is missing.

    Raises:
        RequestRefused: the value is too long.
    """
    return bounded(name, request.query_params.get(name, ""), most).strip()


async def read_form(request: Request) -> Form:
    """Read the form of a POST.

    Raises:
        RequestRefused: the request has no form, is too large, or takes too long.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise RequestRefused(415, f"send {_FORM_TYPE}")
    try:
        async with asyncio.timeout(_READ_SECONDS):
            data = await _read(request)
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
    except TimeoutError:
        raise RequestRefused(408, "the form took too long to arrive") from None
    except ValueError:  # too many fields, or bytes that no browser sends
        raise RequestRefused(400, "the form is malformed") from None
    except ClientDisconnect:
        raise RequestRefused(400, "the form was cut short") from None
    return Form(pairs)


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM_BYTES:
            raise RequestRefused(413, f"the form has more than {MAX_FORM_BYTES:,} bytes")
    return bytes(data)
