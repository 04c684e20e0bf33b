"""Numbers repeated uses of a name, for steps and sleeps in loops."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from itertools import count

_COUNTED = re.compile(r"#\d+\Z", re.ASCII)


class NameCounter:
    """Counts the uses of names within one attempt: ``load``, ``load#2``, ``load#3`` ..."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, count[int]] = defaultdict(partial(count, 1))

    def next(self, name: str) -> str:
        """Return what this use of ``name`` is kept under.

        Raises:
            ValueError: ``name`` looks like one that was counted.
        """
        if _COUNTED.search(name):
            raise ValueError(f"name {name!r} ends like one of several uses of a name; write it without #number")
        number = next(self._counts[name])
        return name if number == 1 else f"{name}#{number}"
