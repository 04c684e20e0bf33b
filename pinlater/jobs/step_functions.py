"""The name of a step's function, and the type of its result."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from pinlater.jobs.field_types import is_foreign
from pinlater.jobs.json_forms import decoder
from pinlater.jobs.retrying import Retrying, Timed

_MOST_TYPES = 4096


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a step calls, without ``retrying``, ``timed`` and ``functools.partial`` around it."""
    while True:
        if isinstance(function, Retrying | Timed):
            function = function.function
        elif isinstance(function, functools.partial):
            function = function.func
        else:
            return function


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call of the function returns a coroutine."""
    function = plain_function(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can be called, but how
    )


def takes_result(undo: Callable[..., Any]) -> bool:
    """Return whether a function can be called with the result of a step alone; true if that is not known."""
    while isinstance(undo, Retrying | Timed):
        undo = undo.function
    try:
        inspect.signature(undo, follow_wrapped=False).bind(None)  # a decorator may add arguments
    except TypeError:
        return False
    except (ValueError, NameError):  # a function in C may not say what it takes; or its types are for checkers only
        return True
    return True


def name_of(function: Callable[..., Any]) -> str:
    """Return the function's name, without its module and class: code may move."""
    function = plain_function(function)
    return str(getattr(function, "__name__", None) or type(function).__name__)


def result_decoder(function: Callable[..., Any]) -> msgspec.json.Decoder[Any] | None:
    """Return the decoder for results of the function.

    None if the function has no return annotation, or one that JSON cannot carry.
    """
    function = plain_function(function)
    if isinstance(function, type):
        return _decoder(function)
    if not hasattr(function, "__name__"):
        function = type(function).__call__
    try:
        annotation = _return_annotation(function)
    except Exception:  # noqa: BLE001 - from Python 3.14 on, annotations are code, which may fail
        return None
    if annotation is inspect.Signature.empty or annotation is Any:
        return None
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, getattr(inspect.unwrap(function), "__module__", ""))
    try:
        return _decoder(annotation)
    except TypeError:  # the annotation is not hashable
        return None


def _return_annotation(function: Callable[..., Any]) -> Any:
    if sys.version_info >= (3, 14):
        import annotationlib

        found = annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    else:
        found = getattr(function, "__annotations__", {})
    return found.get("return", inspect.Signature.empty)


@lru_cache(_MOST_TYPES)
def _evaluated(annotation: str, module: str) -> Any:
    """Return the type that a text annotation in a module names; ``Any`` if it names none there."""

    def stand_in() -> None: ...

    stand_in.__annotations__ = {"return": annotation}
    names = vars(sys.modules[module]) if module in sys.modules else {}
    try:
        return typing.get_type_hints(stand_in, dict(names), include_extras=True)["return"]
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the result is read without it
        return Any


@lru_cache(_MOST_TYPES)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any] | None:
    try:
        if kind is Any or is_foreign(kind):
            return None
        return decoder(kind)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the result is read without it
        return None
