"""The screen of ``pinlater top``: which queues it shows, in which order, and starting from which."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pinlater.cli.output import duration, left_out, visible
from pinlater.cli.tables import Table
from pinlater.model.plural import plural

if TYPE_CHECKING:
    from pinlater.cli.snapshots import QueueSnapshot

_HELP = "q quit   left/right column to sort by   r reverse   / filter   up/down/pgup/pgdn scroll"
_FRAME_LINES = 5
"""Lines that are not rows: clock, empty line, headers, empty line, help."""

_LONGEST_FILTER = 64

Value = float | str


class TopColumn(NamedTuple):
    """A column of the table.

    Attributes:
        header: its name.
        value: returns what to sort by, from a queue's snapshots now and before; large numbers come first.
        text: returns the text to show, from the same.
    """

    header: str
    value: Callable[[QueueSnapshot, QueueSnapshot | None], Value]
    text: Callable[[QueueSnapshot, QueueSnapshot | None], str]


def _number(
    header: str, read: Callable[[QueueSnapshot, QueueSnapshot | None], float | None], form: str = ","
) -> TopColumn:
    """Return the column of a number, which may be unknown."""

    def value(now: QueueSnapshot, before: QueueSnapshot | None) -> Value:
        number = read(now, before)
        return -1 if number is None else number

    def text(now: QueueSnapshot, before: QueueSnapshot | None) -> str:
        number = read(now, before)
        return "-" if number is None else format(number, form)

    return TopColumn(header, value, text)


COLUMNS = (
    TopColumn("QUEUE", lambda now, _: now.queue, lambda now, _: now.queue),
    _number("DUE", lambda now, _: now.due),
    _number("SCHEDULED", lambda now, _: now.scheduled),
    _number("RETRYING", lambda now, _: now.retrying),
    _number("RUNNING", lambda now, _: now.running),
    _number("FAILED", lambda now, _: now.failed),
    _number("SUCCEEDED", lambda now, _: now.succeeded),
    _number("ENDED/S", lambda now, before: now.ended_since(before), ",.1f"),
    TopColumn(
        "WAITS",
        lambda now, _: now.wait_seconds or 0.0,
        lambda now, _: "-" if now.wait_seconds is None else duration(now.wait_seconds),
    ),
    TopColumn("STATE", lambda now, _: _state(now), lambda now, _: _state(now)),
)
_WAITS = next(place for place, column in enumerate(COLUMNS) if column.header == "WAITS")
_OPTIONAL = ("SUCCEEDED", "SCHEDULED", "RUNNING")


def _state(snapshot: QueueSnapshot) -> str:
    settings = snapshot.settings
    if settings is None:
        return "-"
    parts = ["paused"] if settings.is_paused else []
    if settings.jobs_per_second is not None:
        parts.append(f"{settings.jobs_per_second:g}/s")
    if settings.max_running is not None:
        parts.append(f"{settings.max_running} at once")
    if settings.shard_count is not None:
        parts.append(f"{settings.shard_count} shard{'s' * (settings.shard_count > 1)}")
    return ", ".join(parts) or "open"


class TopView:
    """State of the screen, changed by keys.

    Args:
        is_wide: whether columns are never shortened or left out.
    """

    def __init__(self, *, is_wide: bool = False) -> None:
        self._is_wide = is_wide
        self._snapshots: Sequence[QueueSnapshot] = ()
        self._before: Mapping[str, QueueSnapshot] = {}
        self._column = _WAITS
        self._is_reversed = False
        self._filter = ""
        self._is_typing = False
        self._first = 0
        self._page = 1
        self._message = "loading ..."
        self._missing: frozenset[str] = frozenset()

    def show(self, snapshots: Sequence[QueueSnapshot]) -> None:
        """Show new snapshots; keep the last ones as those before."""
        self._before = {snapshot.queue: snapshot for snapshot in self._snapshots}
        self._snapshots = snapshots
        self._message = ""
        self._missing = frozenset[str]().union(*(snapshot.missing_shards for snapshot in snapshots))

    def fail(self, reason: str) -> None:
        """Show why there are no new snapshots."""
        self._message = f"{visible(reason)}; retrying"

    def press(self, key: str) -> bool:
        """Handle a key; return whether the user quits."""
        if self._is_typing:
            self._type(key)
        elif key in {"q", "Q"} or (key == "escape" and not self._filter):
            return True
        elif key == "escape":
            self._filter = ""
        elif key == "/":
            self._is_typing = True
        elif key in {"left", "right"}:
            self._column = (self._column + (1 if key == "right" else -1)) % len(COLUMNS)
            self._is_reversed, self._first = False, 0
        elif key == "r":
            self._is_reversed = not self._is_reversed
        else:
            self._scroll(key)
        return False

    def _type(self, key: str) -> None:
        if key in {"enter", "escape"}:
            self._is_typing = False
            self._filter = self._filter if key == "enter" else ""
        elif key == "backspace":
            self._filter = self._filter[:-1]
        elif re.fullmatch(r"\w", key, re.ASCII):  # queue names have no other characters
            self._filter = (self._filter + key)[:_LONGEST_FILTER]
        self._first = 0

    def _scroll(self, key: str) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._page, "pagedown": self._page}
        if key in steps:
            self._first += steps[key]
        elif key == "home":
            self._first = 0
        elif key == "end":
            self._first = len(self._snapshots)

    def lines(self, columns: int, rows: int) -> list[str]:
        """Return the lines of a screen of the given size."""
        chosen = self._chosen()
        self._page = max(rows - _FRAME_LINES, 1)
        self._first = max(min(self._first, len(chosen) - self._page), 0)
        table = self._table(chosen[self._first : self._first + self._page], None if self._is_wide else columns)
        return [self._head(len(chosen)), "", *table, "", self._foot()]

    def table(self, width: int | None = None) -> list[str]:
        """Return the lines of a table of all queues."""
        return self._table(self._chosen(), width, has_mark=False)

    def _chosen(self) -> list[QueueSnapshot]:
        wanted = self._filter.lower()
        found = [snapshot for snapshot in self._snapshots if wanted in snapshot.queue.lower()]
        value = COLUMNS[self._column].value
        found.sort(key=lambda now: (-now.due, now.queue))
        is_text = bool(found) and isinstance(value(found[0], None), str)
        found.sort(
            key=lambda now: value(now, self._before.get(now.queue)),
            reverse=is_text is self._is_reversed,  # the largest number and the first name come first
        )
        return found

    def _table(self, snapshots: Sequence[QueueSnapshot], width: int | None, *, has_mark: bool = True) -> list[str]:
        marks = {self._column: "^" if self._is_reversed else "*"} if has_mark else {}
        headers = [f"{column.header}{marks.get(place, '')}" for place, column in enumerate(COLUMNS)]
        numbers = range(1, len(COLUMNS) - 1)
        optional = [headers[place] for place, column in enumerate(COLUMNS) if column.header in _OPTIONAL]
        table = Table(headers, numbers, width=width, optional=optional)
        return table.lines([[column.text(now, self._before.get(now.queue)) for column in COLUMNS] for now in snapshots])

    def _head(self, chosen: int) -> str:
        queues = f"{chosen} of " * bool(self._filter) + plural(len(self._snapshots), "queue")
        last = self._first + min(self._page, chosen - self._first)
        place = f", {self._first + 1} to {last}" if chosen > self._page else ""
        missing = f"; {left_out(self._missing)}" if self._missing and not self._message else ""
        return f"{time.strftime('%H:%M:%S')}  {self._message or queues + place}{missing}"

    def _foot(self) -> str:
        if self._is_typing:
            return f"filter: {self._filter}_   (enter: done, escape: all queues)"
        return f"filter: {self._filter} (escape: all queues)   {_HELP}" if self._filter else _HELP
