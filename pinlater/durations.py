"""Lengths of time on the command line."""

from __future__ import annotations

import re

import click

DURATION = "TIME"
"""What the help calls one."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as ``90``, ``15m``, ``2h`` or ``1d12h``.

    Raises:
        click.BadParameter: it is none; the message says what to write.
    """
    parts = _PART.findall(text)
    is_whole = "".join(number + unit for number, unit in parts) == text
    if not parts or not is_whole or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise click.BadParameter(f"{text!r} is no length of time; write 90s, 15m, 2h, 7d or 1d12h.")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
