"""Display of job bodies: JSON indented, other text as it is, other bytes as a hex dump."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pinlater.model.body_fields import read_fields
from pinlater.model.body_metadata import BodyMetadata, read_metadata

MOST_CHARACTERS = 64 * 1024
MOST_HEX_BYTES = 4096
_HEX_WIDTH = 16
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)


class BodyView(NamedTuple):
    """A body prepared for display.

    Attributes:
        kind: ``JSON``, ``text`` or ``bytes``.
        text: the displayed text.
        size: size of the whole body in bytes.
        is_cut: whether the text is truncated.
        metadata: PinLater's metadata in the body; None if there is none.
    """

    kind: str
    text: str
    size: int
    is_cut: bool
    metadata: BodyMetadata | None = None


def view_of(body: bytes) -> BodyView:
    """Prepare a body for display."""
    fields = _fields(body)
    if fields is not None:
        own = {name: value for name, value in fields.items() if not name.startswith("$")}
        pretty = msgspec.json.format(msgspec.json.encode(own), indent=2).decode("utf-8", "replace")
        has_more = len(own) < len(fields)
        return _text("JSON", pretty, len(body))._replace(metadata=_metadata(body) if has_more else None)
    try:
        return _text("JSON", _pretty(body), len(body))
    except _UNREADABLE:
        pass
    try:
        return _text("text", body.decode("utf-8"), len(body))
    except UnicodeDecodeError:
        return BodyView("bytes", hex_dump(body[:MOST_HEX_BYTES]), len(body), len(body) > MOST_HEX_BYTES)


def hex_dump(data: bytes) -> str:
    """Return a hex dump, sixteen bytes a line: offset, hexadecimal digits, ASCII characters."""
    lines = []
    for start in range(0, len(data), _HEX_WIDTH):
        part = data[start : start + _HEX_WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:06x}  {part.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {letters}")
    return "\n".join(lines)


def short_json(value: object, most: int = 200) -> str:
    """Return a value as JSON on one line of at most ``most`` characters."""
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(kind: str, text: str, size: int) -> BodyView:
    return BodyView(kind, text[:MOST_CHARACTERS], size, len(text) > MOST_CHARACTERS)


def _fields(body: bytes) -> dict[str, msgspec.Raw] | None:
    if body.lstrip()[:1] != b"{":
        return None
    try:
        msgspec.json.format(body)  # validates the values, which the decoder below does not
        return read_fields(body)
    except _UNREADABLE:
        return None


def _pretty(body: bytes) -> str:
    value = msgspec.json.decode(body)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")


def _metadata(body: bytes) -> BodyMetadata | None:
    try:
        return read_metadata(body)
    except _UNREADABLE:
        return None
