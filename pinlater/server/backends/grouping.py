"""Grouping of values by key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """Return the values of each key, given as (key, value), in their order."""
    groups: defaultdict[_K, list[_V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
