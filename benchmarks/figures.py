"""Figures, and tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    Attributes:
        name: short name, for programs.
        title: what it is, for people.
        unit: unit of all numbers.
        ours: PinLater's numbers, one for each round.
        bare: the bare loop's numbers, likewise; empty if there is none to compare with.
        cell: row and column in the table of its unit; None for a separate row.
    """

    name: str
    title: str
    unit: str
    ours: Sequence[float]
    bare: Sequence[float] = ()
    cell: tuple[str, str] | None = None

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return median(self.ours)

    @property
    def bare_value(self) -> float | None:
        """The bare loop's median."""
        return median(self.bare) if self.bare else None

    @property
    def ratio(self) -> float | None:
        """PinLater's median as a multiple of the bare loop's."""
        return self.value / self.bare_value if self.bare_value else None

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "value": self.value,
            "bare": self.bare_value,
            "ratio": self.ratio,
            "rounds": list(self.ours),
            "bare_rounds": list(self.bare),
        }


def percentile(numbers: Sequence[float], percent: float) -> float:
    """Return the number that ``percent`` of the numbers do not exceed."""
    position = round((len(numbers) - 1) * percent / 100)
    return sorted(numbers)[position]


def table(figures: Sequence[Figure], other: str) -> str:
    """Return figures as aligned text; ``other`` is the heading of what they are compared with."""
    rows = [("", "unit", "PinLater", other, "ratio")]
    rows += [(f.title, f.unit, _number(f.value), _number(f.bare_value), _number(f.ratio)) for f in figures]
    return aligned(rows, texts=2)


def cell_tables(figures: Sequence[Figure]) -> str:
    """Return the figures that are cells as aligned text, a table for each unit."""
    units = dict.fromkeys(figure.unit for figure in figures)
    return "\n\n".join(_cell_table(unit, [figure for figure in figures if figure.unit == unit]) for unit in units)


def _cell_table(unit: str, figures: Sequence[Figure]) -> str:
    values = {figure.cell: figure.value for figure in figures}
    titles, columns = (list(dict.fromkeys(cell[at] for cell in values if cell is not None)) for at in (0, 1))
    rows = [(unit, *columns)]
    rows += [(title, *(_number(values.get((title, column))) for column in columns)) for title in titles]
    return aligned(rows, texts=1)


def aligned(rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """Return rows with their columns aligned: the first ``texts`` to the left, those of numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths, texts) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int], texts: int) -> str:
    words = [cell.ljust(width) for cell, width in zip(row[:texts], widths[:texts], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(row[texts:], widths[texts:], strict=True)]
    return "  ".join(words + numbers).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f}"
