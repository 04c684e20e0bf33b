"""Texts in findings: durations, numbers and sizes."""

from __future__ import annotations

_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_MOST_ERROR = 160


def span(seconds: float) -> str:
    """Format a duration in one unit, from 2 of that unit up: ``90 seconds``, ``2 minutes``."""
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    if seconds < 0.95:
        return f"{seconds * 1000:.0f} ms"
    return "1 second" if round(seconds) == 1 else f"{seconds:.0f} seconds"


def times(count: int) -> str:
    """Format how often something happened."""
    return "once" if count == 1 else f"{count:,} times"


def size(count: float) -> str:
    """Format a number of bytes."""
    for length, unit in _SIZES:
        if count >= length:
            return f"{count / length:,.0f} {unit}"
    return f"{count:,.0f} bytes"


def share(part: float) -> str:
    """Format a share from 0 to 1 in percent."""
    return f"{part * 100:.0f} %"


def shortened(text: str, most: int = _MOST_ERROR) -> str:
    """Return text on one line, without its end if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
