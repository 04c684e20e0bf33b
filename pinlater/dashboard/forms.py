"""Fields of forms and of addresses: read within bounds, refused with a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

MAX_FORM_BYTES = 256 * 1024
MAX_FIELDS = 1100
_READ_SECONDS = 10.0
_FORM_TYPE = "application/x-www-form-urlencoded"


class Refused(Exception):
    """A request is not carried out.

    Attributes:
        status: of HTTP.
        back: path of a page to go on from; empty for the first one.
    """

    def __init__(self, status: int, message: str, back: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.back = back


class Form:
    """The fields of a POST.

    Args:
        pairs: names and values, in order; a name may come several times.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def text(self, name: str, most: int = 1024) -> str:
        """Return the first value of a field without the spaces around it; empty if it is not there.

        Raises:
            Refused: it is too long.
        """
        return self.raw(name, most).strip()

    def raw(self, name: str, most: int = 1024) -> str:
        """Return the first value of a field as it is, spaces and all; otherwise as ``text``."""
        return bounded(name, next((value for key, value in self._pairs if key == name), ""), most)

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for key, value in self._pairs if key == name]

    def number(self, name: str, lowest: float, highest: float, read: Callable[[str], float] = float) -> float | None:
        """Return a number; None for an empty field.

        Raises:
            Refused: it is no number, or out of its range.
        """
        text = self.text(name, 40).replace(",", "")
        return None if not text else number(name, text, lowest, highest, read)


def number(name: str, text: str, lowest: float, highest: float, read: Callable[[str], float] = float) -> float:
    """Read a number.

    Raises:
        Refused: it is none, or out of its range.
    """
    try:
        value = read(text)
    except ValueError:
        raise Refused(400, f"{name} is no number: {text[:40]}") from None
    if not lowest <= value <= highest:  # also of nan
        raise Refused(400, f"{name} has to be from {lowest:,g} to {highest:,g}")
    return value


def bounded(name: str, text: str, most: int) -> str:
    """Return text that is not too long.

    Raises:
        Refused: it is.
    """
    if len(text) > most:
        raise Refused(400, f"{name} has more than {most:,} characters")
    return text


def asked(request: Request, name: str, most: int = 1024) -> str:
    """Return a field of the address; empty if it is not there.

    Raises:
        Refused: it is too long.
    """
    return bounded(name, request.query_params.get(name, ""), most).strip()


async def read_form(request: Request) -> Form:
    """Read the fields of a POST.

    Raises:
        Refused: it is no form, too large, or does not come.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise Refused(415, f"send {_FORM_TYPE}")
    try:
        async with asyncio.timeout(_READ_SECONDS):
            data = await _read(request)
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
    except TimeoutError:
        raise Refused(408, "the form did not come in time") from None
    except ValueError:  # too many fields, or bytes that no browser sends
        raise Refused(400, "this is no form of ours") from None
    except ClientDisconnect:
        raise Refused(400, "the form was cut short") from None
    return Form(pairs)


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM_BYTES:
            raise Refused(413, f"the form has more than {MAX_FORM_BYTES:,} bytes")
    return bytes(data)
