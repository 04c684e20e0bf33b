"""Amounts of memory, as options say them."""

from __future__ import annotations

import re

import click

_PATTERN = re.compile(r"(\d{1,15})([KMG]?)B?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def size(text: str) -> int:
    """Return bytes: a number with K, M or G for thousands, millions or billions, which is how logs count, too.

    Raises:
        click.BadParameter: the text is none, or 0.
    """
    found = _PATTERN.fullmatch(text)
    count = int(found[1]) * _UNITS[found[2].upper()] if found else 0
    if not count:
        raise click.BadParameter(f"{text!r} is no size; write one such as 300M or 2G.")
    return count
