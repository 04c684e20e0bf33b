"""Numbers repeated uses of a name, for steps and sleeps in loops."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_COUNTED = re.compile(r"(.*)#(\d+)", re.ASCII | re.DOTALL)


def check_name(name: str) -> None:
    """Refuse a name that is not text, or that ends in ``#`` and a number.

    Raises:
        TypeError: it is not text, as when ``step`` is called with only a function.
        ValueError: it ends in ``#`` and a number.
    """
    if not isinstance(name, str):
        raise TypeError(f"{name!r:.80} is no name; the name of a step, sleep, event or job is a text, and comes first")
    if _COUNTED.fullmatch(name):
        raise ValueError(f"name {name!r} ends like one of several uses of a name; write it without #number")


class NameCounter:
    """Counts the uses of names within one attempt: ``load``, ``load#2``, ``load#3`` ..."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, int] = defaultdict(int)

    def next(self, name: str) -> str:
        """Return the key under which this use of ``name`` is recorded.

        Raises:
            TypeError, ValueError: see ``check_name``.
        """
        check_name(name)
        self._counts[name] = number = self._counts[name] + 1
        return name if number == 1 else f"{name}#{number}"

    def is_ahead(self, last_first: Iterable[str]) -> bool:
        """Return whether earlier attempts have got further: this one has not used the last key that they recorded.

        Args:
            last_first: the keys that they recorded, the last one first.
        """
        for key in last_first:
            name, number = use_of(key)
            return self._counts.get(name, 0) < number
        return False


def use_of(key: str) -> tuple[str, int]:
    """Return the name in a key such as ``load#2``, and which use of it this is, from 1."""
    found = _COUNTED.fullmatch(key)
    return (key, 1) if found is None else (found[1], int(found[2]))
