"""Formatting of values in pages: numbers, times, and untrusted text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from pinlater.model.plural import plural

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_PLAIN_CONTROLS = frozenset("\n\t")
NOTHING = "\u2013"


def visible(text: str) -> str:
    """Return text with invisible characters escaped, except for newlines and tabs; unusual spaces become plain ones.

    Invisible are control characters, direction changes, zero-width characters and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in _PLAIN_CONTROLS else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    if unicodedata.category(letter) == "Zs":  # a wide or narrow space
        return " "
    return letter.encode("unicode_escape").decode("ascii")


def finalized(value: Any) -> Any:
    """Escape invisible characters in a template's value; leave markup as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def number(value: float | None, digits: int = 0) -> str:
    """Format a number with thousands separators."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def rate(value: float | None) -> str:
    """Format a rate per second; the larger it is, the fewer decimals."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def share(value: float | None) -> str:
    """Format a share of a whole in percent."""
    if value is None:
        return NOTHING
    percent = value * 100
    digits = 0 if percent == 0 or percent >= 10 else 1 if percent >= 0.1 else 2
    return f"{percent:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Format a duration with two or three digits, or in its two largest units."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return _small(seconds * 1000, "ms") if seconds >= 0.0009995 else _small(seconds * 1e6, "µs")
    return _small(seconds, "s") if seconds < 9.95 else whole_duration(int(seconds + 0.5))


def _small(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def whole_duration(seconds: int) -> str:
    """Format whole seconds in their two largest units."""
    for (size, unit), (small, small_unit) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // small
            return f"{seconds // size} {unit} {rest} {small_unit}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"


def moment(epoch_ms: int | None, now: float) -> Markup | str:
    """Format a moment relative to ``now``, epoch seconds, with the exact time as a tooltip."""
    if not epoch_ms:
        return NOTHING
    try:
        exact = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"
    ahead = epoch_ms / 1000 - now
    length = whole_duration(int(abs(ahead)))
    text = "now" if abs(ahead) < 1 else f"in {length}" if ahead > 0 else f"{length} ago"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="milliseconds"), f"{exact:%Y-%m-%d %H:%M:%S} UTC", text
    )


def size(count: float) -> str:
    """Format a number of bytes."""
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return plural(int(count), "byte")


def shortened(text: str, most: int = 40) -> Markup | str:
    """Shorten a long name in its middle; screen readers get the full one, the page shows it on hover and on focus."""
    text = visible(text)
    if len(text) <= most:
        return text
    head = most // 2
    short = f"{text[:head]}\u2026{text[head + 1 - most :]}"
    return Markup(
        '<span class="cut" data-full="{}"><span aria-hidden="true">{}</span>'
        '<span class="visually-hidden">{}</span></span>'
    ).format(text, short, text)


def sparkline(values: Sequence[float | None], width: int = 96, height: int = 22, samples: int = 120) -> Markup:
    """Return a small line chart, scaled to its maximum, with gaps for missing values."""
    values = [*[None] * (samples - len(values)), *values]
    known = [value for value in values if value is not None]
    top = max(known, default=0.0)
    step = width / max(len(values) - 1, 1)
    lines: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            y = height - 1.5 - (value / top * (height - 3) if top else 0)
            lines[-1].append(f"{index * step:.1f},{y:.1f}")
    shapes = Markup("").join(_shape(points, height) for points in lines if len(points) > 1)
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" aria-hidden="true">{s}</svg>'
    ).format(w=width, h=height, s=shapes)


def _shape(points: list[str], height: int) -> Markup:
    first, last = points[0].partition(",")[0], points[-1].partition(",")[0]
    return Markup('<polygon points="{f},{h} {p} {l},{h}"/><polyline points="{p}"/>').format(
        f=first, l=last, h=height, p=" ".join(points)
    )
