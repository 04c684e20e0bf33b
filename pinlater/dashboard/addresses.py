"""Addresses of pages, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlencode

_NONE: Mapping[str, str] = MappingProxyType({})


def address(path: str, fields: Mapping[str, object], defaults: Mapping[str, str] = _NONE) -> str:
    """Return the path of a page with its non-empty parameters.

    Args:
        path: the path.
        fields: name of a parameter -> value.
        defaults: values that the page assumes for missing parameters; these are left out as well.
    """
    given = {name: value for name, value in fields.items() if value and value != defaults.get(name)}
    return f"{path}?{urlencode(given)}" if given else path
