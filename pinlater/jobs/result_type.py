"""The result type of a job class: ``Size`` of ``class Resize(Job[Size])``."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from pinlater.errors import ConfigError
from pinlater.jobs.job import Job, RawJob


class _Undeclared:
    def __repr__(self) -> str:
        return "UNDECLARED"


UNDECLARED: Final = _Undeclared()
"""Stands in for the result type of a class that declares none."""


@cache
def result_type(kind: type[Job]) -> Any:
    """Return the type that a class declares for what ``run`` returns; ``UNDECLARED`` if it declares none.

    Raises:
        ConfigError: the type does not exist at run time.
    """
    declared = _declared(kind)
    return UNDECLARED if isinstance(declared, TypeVar) else declared


@cache
def has_typed_result(kind: type[Job]) -> bool:
    """Return whether results of a class must fit a type, and are sent as JSON."""
    return not issubclass(kind, RawJob) and result_type(kind) is not UNDECLARED


def _declared(kind: type[Job]) -> Any:
    """Return the argument of ``Job[...]`` above a class; a ``TypeVar`` if it is left open."""
    for base in kind.__dict__.get("__orig_bases__", kind.__bases__):
        above = get_origin(base) or base
        if not (isinstance(above, type) and issubclass(above, Job)):
            continue
        arguments = [_resolved(kind, argument) for argument in get_args(base)]
        if above is Job:
            return arguments[0] if arguments else TypeVar("open")
        return _substituted(_declared(above), dict(zip(getattr(above, "__parameters__", ()), arguments, strict=False)))
    return TypeVar("open")


def _substituted(declared: Any, arguments: dict[Any, Any]) -> Any:
    """Return a type in which arguments replace its type variables."""
    if isinstance(declared, TypeVar):
        return arguments.get(declared, declared)
    names = getattr(declared, "__parameters__", ())
    return declared[tuple(arguments.get(name, Any) for name in names)] if names else declared


def _resolved(kind: type[Job], argument: Any) -> Any:
    """Return the type that an argument of ``Job[...]`` names; it may be text, for a class that is defined later."""

    def hinted() -> None: ...

    hinted.__annotations__ = {"result": argument}
    try:
        names = getattr(sys.modules.get(kind.__module__), "__dict__", {})  # none if it was made by exec
        return get_type_hints(hinted, names, {kind.__name__: kind})["result"]
    except NameError as error:
        raise ConfigError(
            f"job class {kind.__module__}.{kind.__qualname__}: its result type is not there at run time: {error}; "
            "import it at the top of the module, not under TYPE_CHECKING"
        ) from error
