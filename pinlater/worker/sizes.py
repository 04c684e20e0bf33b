"""Parses memory sizes in options."""

from __future__ import annotations

import re

import click

_PATTERN = re.compile(r"(\d{1,15})([KMG]?)B?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def size(text: str) -> int:
    """Parse a size such as ``300M`` into bytes; K, M and G are powers of 1000, as in log lines.

    Raises:
        click.BadParameter: the text is no size, or 0.
    """
    found = _PATTERN.fullmatch(text)
    count = int(found[1]) * _UNITS[found[2].upper()] if found else 0
    if not count:
        raise click.BadParameter(f"{text!r} is not a size; write one such as 300M or 2G.")
    return count
