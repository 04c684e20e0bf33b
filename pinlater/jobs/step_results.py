"""Results of steps: stored as JSON, and returned to the job as the type that the step's function returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pinlater.errors import BodyInvalid, StepMismatch
from pinlater.jobs.finite import NO_JSON, encode_finite
from pinlater.jobs.json_forms import encode
from pinlater.jobs.step_functions import name_of, result_decoder


def as_json(key: str, result: Any) -> tuple[Any, int]:
    """Return a result after a round trip through JSON, and its size as JSON in bytes.

    Raises:
        BodyInvalid: JSON cannot carry it.
    """
    try:
        encoded = encode_finite(result)
        return msgspec.json.decode(encoded), len(encoded)
    except NO_JSON as error:
        raise BodyInvalid(f"step {key!r} returned something that JSON cannot carry: {error}") from error


def misfit(kept: Any, function: Callable[..., Any]) -> str:
    """Return why a stored result cannot be converted to the function's return type and back; empty if it can."""
    decoder = result_decoder(function)
    if decoder is None:
        return ""
    try:
        again = msgspec.json.decode(encode(decoder.decode(encode(kept))))
    except NO_JSON as error:
        return str(error)
    is_whole = again == kept or _unordered(again) == _unordered(kept)
    return "" if is_whole else "something of it would be lost"


def _unordered(value: Any) -> Any:
    """Return JSON values with all lists sorted: a set has no order."""
    if isinstance(value, dict):
        return {name: _unordered(each) for name, each in value.items()}
    return sorted(map(_unordered, value), key=repr) if isinstance(value, list) else value


def copied(kept: Any) -> Any:
    """Return a copy of a stored result, so that the job cannot change what is stored."""
    return msgspec.json.decode(encode(kept))


def typed_result(key: str, kept: Any, function: Callable[..., Any]) -> Any:
    """Return a copy of a stored result, in the function's return type.

    Args:
        key: name under which the result is recorded.
        kept: the result, as JSON values.
        function: function of the step; its return annotation is the type.

    Raises:
        StepMismatch: it does not fit that type.
    """
    decoder = result_decoder(function)
    if decoder is None:
        return copied(kept)
    try:
        return decoder.decode(encode(kept))
    except (msgspec.ValidationError, ValueError) as error:
        raise StepMismatch(
            f"the saved result of step {key!r} does not fit what {name_of(function)} returns now: {error}; give new "
            "fields a default, or the step another name"
        ) from error
