"""JSON forms of what msgspec does not know: paths, and models of pydantic, which is not imported for that."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec


def has_form(kind: Any) -> bool:
    """Return whether values of a type that msgspec does not know have a form in JSON."""
    return isinstance(kind, type) and (issubclass(kind, PurePath) or _is_model(kind))


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_dump_json") and hasattr(kind, "model_validate_json")


def write_form(value: Any) -> Any:
    """Return the form of a value that msgspec does not know.

    Raises:
        TypeError: it has none.
    """
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def read_form(kind: Any, form: Any) -> Any:
    """Return the value of a form, in a type that msgspec does not know.

    Raises:
        ValueError, TypeError: the form does not fit the type.
    """
    if not has_form(kind):
        return form  # of a base class of what JSON decodes to, see ``field_types``
    if issubclass(kind, PurePath):
        return kind(form)
    try:
        return kind.model_validate_json(msgspec.json.encode(form))
    except Exception as error:  # a validator is the user's code, and may raise anything
        said = str(error) if isinstance(error, ValueError) else f"a validator raised {type(error).__name__}: {error}"
        raise ValueError(" ".join(said.split())) from error  # pydantic's has several lines


def schema_of(kind: type) -> dict[str, Any]:
    """Return the JSON schema of a type that msgspec does not know.

    Raises:
        NotImplementedError: its values have no form.
    """
    if not has_form(kind):
        raise NotImplementedError
    return {"type": "string" if issubclass(kind, PurePath) else "object"}


def values_in(value: Any) -> Any:
    """Return what to look into of a value that msgspec does not know; None if there is nothing."""
    if isinstance(value, PurePath):
        return str(value)
    return value.model_dump() if _is_model(type(value)) else None


encode = msgspec.json.Encoder(enc_hook=write_form).encode
"""Returns a value as JSON."""


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of values of a type.

    Raises:
        TypeError: JSON cannot carry the type.
    """
    return msgspec.json.Decoder(kind, dec_hook=read_form)
