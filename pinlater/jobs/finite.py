"""Refusal of NaN and infinity, which JSON cannot express: they would be sent as null and arrive as None."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import msgspec

from pinlater.jobs.json_forms import encode, values_in

NULL = b"null"
"""What NaN and infinity become in JSON; without it, there is nothing to look for."""


NO_JSON = (TypeError, ValueError, OverflowError, RecursionError)
"""What is raised for a value that JSON cannot carry."""


def encode_finite(value: object) -> bytes:
    """Return a value as JSON.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: JSON cannot carry the value; see ``NO_JSON``.
    """
    text = encode(value)
    if NULL in text:
        refuse_non_finite(value)
    return text


def refuse_non_finite(value: object) -> None:
    """Check that no number in a value, at any depth, is NaN or infinite; needed only if its JSON has a null.

    Raises:
        ValueError: a number is; the message says where.
    """
    for place, number in _floats_in(msgspec.to_builtins(value, str_keys=True, enc_hook=values_in), ""):
        if not isfinite(number):
            raise ValueError(f"{place or 'it'} is {number}, which JSON has no word for; use None or a text instead")


def has_hidden_null(job: msgspec.Struct, body: bytes) -> bool:
    """Return whether the JSON of a job may have a null that does not stand for a field that is None."""
    if job.__struct_config__.omit_defaults:
        return True
    return body.count(NULL) != msgspec.structs.astuple(job).count(None)


def _floats_in(value: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _floats_in(each, f"{place}.{name}" if place else name)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _floats_in(each, f"{place}[{number}]")
