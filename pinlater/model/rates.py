"""Rates: jobs per second, minute, hour or day."""

from __future__ import annotations

import re
from typing import NamedTuple

_PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RATE = re.compile(r"([1-9]\d{0,5})/([smhd])", re.ASCII)

LONGEST_RATE = 8
"""Maximum number of characters of a rate as text."""


class Rate(NamedTuple):
    """At most ``jobs`` in any ``seconds``."""

    jobs: int
    seconds: int


def parse_rate(text: str) -> Rate:
    """Return the rate of a text such as ``10/s``, ``100/m``, ``1000/h`` or ``5/d``.

    Raises:
        ValueError: the text is not a rate.
    """
    found = _RATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.40} is no rate; write 10/s, 100/m, 1000/h or 5/d, of 1 to 999,999")
    return Rate(int(found[1]), _PERIODS[found[2]])
