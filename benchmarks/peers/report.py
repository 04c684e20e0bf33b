"""Formats of the league: text, Markdown, a part of a page, and a drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median

from benchmarks.figures import aligned
from benchmarks.peers.contestants import CONTESTANTS
from benchmarks.peers.league import Round

BEGIN, END = "<!-- league: written by python -m benchmarks.peers -->", "<!-- end of the league -->"

HEADINGS = (
    "calls/s",
    "server µs",
    "producer µs",
    "calls/s of 8",
    "calls/s of 32",
    "call ms",
    "beside workers",
    "start p50 ms",
    "start p99 ms",
    "jobs/s",
    "server µs",
    "workers µs",
)
_PROMISES = ("survives", "job of a killed worker")
_TEXTS = 1 + len(_PROMISES)
"""Number of columns with text: the name and the guarantees; the others are numbers."""


def rows_of(found: Mapping[str, Sequence[Round]]) -> list[tuple[str, ...]]:
    """Return the headings, then a row for each contestant with the medians of all rounds."""
    rows = [("", *_PROMISES, *HEADINGS)]
    for name, rounds in found.items():
        contestant = CONTESTANTS[name]
        numbers = [_number(None if None in values else median(values)) for values in zip(*rounds, strict=True)]
        rows.append((contestant.title, contestant.survives, contestant.when_killed, *numbers))
    return rows


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table."""
    return aligned(rows, texts=_TEXTS)


def as_markdown(rows: Sequence[Sequence[str]], machine: str) -> str:
    """Return a table for a page, below the description of the machine."""
    heading, *others = rows
    marks = ["---"] * _TEXTS + ["---:"] * (len(heading) - _TEXTS)
    lines = [" | ".join(row) for row in (heading, marks, *others)]
    return f"{machine}.\n\n" + "\n".join(f"| {line} |" for line in lines)


def write_into(page: Path, table: str) -> None:
    """Put a table between the two comments of a page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the table: {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def as_svg(found: Mapping[str, Sequence[Round]]) -> str:
    """Draw bars of calls per second and jobs per second on a logarithmic scale."""
    width, left, height = 1000, 330, 22
    parts = []
    for at, (name, rounds) in enumerate(found.items()):
        top = 40 + at * (2 * height + 8)
        title = escape(CONTESTANTS[name].title)
        parts.append(f'<text x="{left - 10}" y="{top + height}" text-anchor="end">{title}</text>')
        for line, (field, colour) in enumerate((("calls_a_second", "#3b6ea5"), ("jobs_a_second", "#d08a2e"))):
            value = median(getattr(one, field) for one in rounds)
            length = math.log10(max(value, 1.1)) / 6 * (width - left - 90)
            y = top + line * height
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.0f}" height="{height - 4}" fill="{colour}"/>')
            parts.append(f'<text x="{left + length + 6:.0f}" y="{y + height - 7}">{_number(value)}</text>')
    bottom = 50 + len(found) * (2 * height + 8)
    title = "blue: enqueue calls/s of one producer; orange: jobs/s of two worker processes (logarithmic)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom}" font-family="sans-serif" '
        f'font-size="14"><rect width="100%" height="100%" fill="white"/><text x="10" y="24">{title}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"
