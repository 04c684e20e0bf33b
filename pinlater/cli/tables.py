"""Tables that fit the terminal: long texts are shortened in the middle, and some columns are left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import click

_GAP = "  "
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_LEAST = 10
"""Width below which a text says too little; optional columns are left out first."""

_FULL_TIME = re.compile(r"\d{4}-(\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z", re.ASCII)


class Table:
    """Table with aligned columns, printed in parts.

    Args:
        headers: names of the columns.
        numbers: positions of right-aligned columns, which are never shortened.
        whole: positions of other columns that are never shortened, such as those that users copy.
        width: columns of the terminal; None for as many as the texts need.
        optional: names of the columns that are left out if the width is too small, in this order.
    """

    def __init__(
        self,
        headers: Sequence[str],
        numbers: Iterable[int] = (),
        *,
        whole: Iterable[int] = (),
        width: int | None = None,
        optional: Sequence[str] = (),
    ) -> None:
        self._headers = headers
        self._numbers = frozenset(numbers)
        self._whole = self._numbers | frozenset(whole)
        self._width = width
        self._optional = optional
        self._widths: dict[int, int] | None = None

    @property
    def left_out(self) -> list[str]:
        """Names of the columns that do not fit, once there are rows."""
        shown = range(len(self._headers)) if self._widths is None else self._widths
        return [name for column, name in enumerate(self._headers) if column not in shown]

    def print(self, rows: Sequence[Sequence[str]]) -> None:
        """Print some rows; the first call prints the headers and sets the widths."""
        is_first = self._widths is None
        for line in self.lines(rows):
            click.echo(line)
        if is_first and self.left_out:
            click.echo(f"left out: {', '.join(self.left_out)}; --wide shows all", err=True)

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return rows as lines; those of the first call begin with the headers."""
        cells = [list(row) for row in rows]
        if self._width is not None:
            times = {column for row in cells for column, cell in enumerate(row) if _FULL_TIME.fullmatch(cell)}
            self._whole |= times
            cells = [[_short_time(cell) for cell in row] for row in cells]
        if self._widths is None:
            cells.insert(0, list(self._headers))
            self._widths = self._fit(cells)
        return [self._line(row, self._widths) for row in cells]

    def _fit(self, rows: Sequence[Sequence[str]]) -> dict[int, int]:
        """Return the widths of the columns that are shown."""
        full = {column: max(len(row[column]) for row in rows) for column in range(len(self._headers))}
        if self._width is None:
            return full
        least = {column: width if column in self._whole else min(width, _LEAST) for column, width in full.items()}
        left_out: list[str] = []
        for name in self._optional:
            if self._needs(least, left_out) <= self._width:
                break
            left_out.append(name)
        widths = {column: width for column, width in full.items() if self._headers[column] not in left_out}
        while self._needs(widths) > self._width:
            widest = max(widths.keys() - self._whole, key=lambda column: widths[column], default=None)
            if widest is None or widths[widest] <= _LEAST // 2:
                break
            widths[widest] -= 1
        return widths

    def _needs(self, widths: dict[int, int], left_out: Collection[str] = ()) -> int:
        shown = [width for column, width in widths.items() if self._headers[column] not in left_out]
        return sum(shown) + len(_GAP) * (len(shown) - 1)

    def _line(self, cells: Sequence[str], widths: dict[int, int]) -> str:
        shown = {
            column: cells[column] if self._width is None else shortened_middle(cells[column], width)
            for column, width in widths.items()
        }
        return _GAP.join(
            cell.rjust(widths[column]) if column in self._numbers else cell.ljust(widths[column])
            for column, cell in shown.items()
        ).rstrip()


def shortened_middle(text: str, most: int) -> str:
    """Return text, without its middle if it is long: names often differ at the end."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return text[: most - 1 - tail] + _CUT + (text[-tail:] if tail else "")


def _short_time(cell: str) -> str:
    """Return a cell; if it is a time, without year and milliseconds."""
    found = _FULL_TIME.fullmatch(cell)
    return cell if found is None else f"{found[1]} {found[2]}"
