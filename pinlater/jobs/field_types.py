"""Checks whether JSON can carry the types of a job's fields to a worker, before any job is enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pinlater.errors import ConfigError
from pinlater.jobs.job import Job
from pinlater.jobs.json_forms import decoder, has_form

_DECODED = (str, int, float, bool, list, dict, type(None))
"""What JSON decodes to by itself; the type of a field may also be a base class of one of these."""


def check_fields(kind: type[Job]) -> None:
    """Check that the fields of a job class can be read from JSON.

    Raises:
        ConfigError: they cannot; the message says which, and what to write instead.
    """
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined] # that of a Struct
            _refuse_foreign(name, field.type, f"its field {field.name}")
        decoder(kind)
    except NameError as error:
        raise ConfigError(
            f"job class {name}: a field has a type that is not there at run time: {error}; import it at the top of the "
            "module, not under TYPE_CHECKING"
        ) from error
    except TypeError as error:
        raise ConfigError(f"job class {name}: the types of its fields cannot be read from JSON: {error}") from error


def check_result_type(kind: type[Job], declared: Any) -> None:
    """Check that the declared result of a job class can be read from JSON.

    Raises:
        ConfigError: it cannot; the message says what to write instead.
    """
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        _refuse_foreign(name, msgspec.inspect.type_info(declared), "its result")
        decoder(declared)
    except (TypeError, NameError) as error:
        raise ConfigError(f"job class {name}: its result type cannot be read from JSON: {error}") from error


def _refuse_foreign(name: str, info: Any, what: str) -> None:
    for foreign in _foreign_in(info, set()):
        raise ConfigError(
            f"job class {name}: JSON cannot carry {what}, a {foreign.__module__}.{foreign.__qualname__}; "
            "use text, numbers, lists, dicts, dates or dataclasses instead"
        )


def is_foreign(kind: Any) -> bool:
    """Return whether a type contains, at any depth, a class that JSON cannot carry.

    Raises:
        TypeError, NameError: it cannot be read from JSON for another reason.
    """
    return any(True for _ in _foreign_in(msgspec.inspect.type_info(kind), set()))


def _foreign_in(info: Any, seen: set[int]) -> Iterator[type]:
    """Yield the classes in a type, at any depth, that JSON cannot carry; types may contain themselves."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        if not (has_form(info.cls) or any(issubclass(plain, info.cls) for plain in _DECODED)):
            yield info.cls
    elif isinstance(info, tuple):
        for each in info:
            yield from _foreign_in(each, seen)
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in info.__struct_fields__:
            yield from _foreign_in(getattr(info, name), seen)
