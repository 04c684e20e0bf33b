"""The name of the class that a job's body is for."""

from __future__ import annotations

import msgspec

from pinlater.model.body_fields import DECODE_ERRORS
from pinlater.model.kept_mark import class_in

NO_CLASS = "(unreadable)"
"""Name under which workers report jobs whose bodies name no class."""


class _Tag(msgspec.Struct):
    job: str


_decoder = msgspec.json.Decoder(_Tag)


def name_in(body: bytes) -> str | None:
    """Return the name of the class that a body is for; None if the body names none."""
    try:
        return class_in(_decoder.decode(body).job)
    except DECODE_ERRORS:
        return None
