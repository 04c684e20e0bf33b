"""The mark of a job with results of steps beside its body: a suffix of the class name in the body.

Workers of versions that do not know such results do not know a class of that name either. So they give the job back,
without spending an attempt, instead of running its finished steps again.
"""

from __future__ import annotations

import msgspec

from pinlater.model.body_fields import DECODE_ERRORS, read_fields

KEPT_MARK = "$kept"
_MARK_END = f'{KEPT_MARK}"'.encode()
_TAG = "job"


def class_in(tag: str) -> str:
    """Return the name of a class, given the name in a body, which may have the mark."""
    return tag.removesuffix(KEPT_MARK)


def with_mark(body: bytes, *, is_kept: bool) -> bytes:
    """Return a body with the mark, or without it; cheap for a body that has none and needs none.

    Raises:
        msgspec.DecodeError: the body is not a JSON object, or its class is not text.
    """
    if not is_kept and _MARK_END not in body:
        return body
    fields = read_fields(body)
    name = class_in(msgspec.json.decode(fields[_TAG], type=str)) if _TAG in fields else ""
    fields[_TAG] = msgspec.Raw(msgspec.json.encode(name + KEPT_MARK if is_kept else name))
    return msgspec.json.encode(fields)


def unmarked(body: bytes) -> bytes | None:
    """Return a body without the mark; None if it has none."""
    if _MARK_END not in body:
        return None
    try:
        plain = with_mark(body, is_kept=False)
    except DECODE_ERRORS:
        return None
    return None if _tag_of(plain) == _tag_of(body) else plain


def _tag_of(body: bytes) -> bytes:
    return bytes(read_fields(body).get(_TAG, b""))
