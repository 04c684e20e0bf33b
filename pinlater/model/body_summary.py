"""Summary of a body for lists: the class of the job, and its arguments on one short line.

The beginning of a body is enough, as a look-up with ``max_body_bytes`` returns it.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pinlater.model.kept_mark import class_in

SUMMARY_BYTES = 512
"""Bytes of a body that are enough for a summary."""

_MOST_CHARACTERS, _MOST_OF_VALUE = 100, 40
_SPACE = " \t\r\n"
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_scan_value = json.JSONDecoder().raw_decode
_NO_JSON = (ValueError, RecursionError)


class BodySummary(NamedTuple):
    """Summary of a body.

    Attributes:
        job: name of the job class; empty if the body names none.
        arguments: the fields as ``user_id=42, name="ada"``; the text of a body that is not a JSON object, or its first
            bytes in hexadecimal digits.
    """

    job: str
    arguments: str


def summarize(body: bytes | None, most: int = _MOST_CHARACTERS) -> BodySummary:
    """Return the summary of a body, or of its beginning.

    Args:
        body: the body; None if it is unknown.
        most: maximum number of characters of the arguments.
    """
    begin = (body or b"")[:SUMMARY_BYTES]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(begin).strip()
    except UnicodeDecodeError:
        return BodySummary("", _shortened(begin[:most].hex(" "), most))
    if not text.startswith("{"):
        return BodySummary("", _shortened(" ".join(text.split()), most))
    job, fields, length = "", list[str](), 0
    for name, value, source in _members(text):
        if name == "job" and isinstance(value, str):
            job = class_in(value)
        elif not name.startswith("$") and length <= most:
            fields.append(f"{name}={_shown(value, source)}")
            length += len(fields[-1]) + 2
    return BodySummary(job, _shortened(", ".join(fields), most))


def _members(text: str) -> Iterator[tuple[str, Any, str]]:
    """Yield name, value and source of the members of a JSON object, as far as its text goes.

    The value of a member that is cut is None.
    """
    place, end = 1, len(text)
    while (place := _after(text, place, _SPACE + ",")) < end and text[place] == '"':
        try:
            name, place = _scan_value(text, place)
        except _NO_JSON:
            return
        place = _after(text, place, _SPACE + ":")
        try:
            value, stop = _scan_value(text, place)
        except _NO_JSON:
            stop = end
        if stop == end:  # cut off: a complete object ends with its brace
            yield name, None, text[place:].rstrip() + _CUT
            return
        yield name, value, ""
        place = stop


def _after(text: str, place: int, letters: str) -> int:
    while place < len(text) and text[place] in letters:
        place += 1
    return place


def _shown(value: Any, source: str) -> str:
    text = source or json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _shortened(text.encode("utf-8", "replace").decode(), _MOST_OF_VALUE)  # without lone surrogates


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT
