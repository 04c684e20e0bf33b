"""Rows of the queues table, from data that needs no call for each queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pinlater.dashboard.count_cache import OPEN_STATES, StateCounts
from pinlater.dashboard.figures import DUE_RETRYING, STATE_GAUGES, WAITING_FOR_KEY
from pinlater.dashboard.history import History
from pinlater.model.queues import QueueSettings
from pinlater.model.silence import is_silent, serving_processes
from pinlater.model.workers import WorkerReport


class Column(NamedTuple):
    """A column by which the table can be sorted.

    Attributes:
        name: name in URLs, and of the value in ``QueueRow.value``.
        label: header.
        help: what the values are; empty if the label says it.
        is_extra: whether narrow windows hide it.
    """

    name: str
    label: str
    help: str = ""
    is_extra: bool = False


COLUMNS = (
    *(Column(state.name, state.name.capitalize()) for state in OPEN_STATES),
    Column("enqueued_rate", "In /s", "jobs enqueued per second at this server, mean of the last 20 s", is_extra=True),
    Column("succeeded_rate", "Done /s", "jobs succeeded per second at this server, mean of the last 20 s"),
    Column("failed_rate", "Failed /s", "failed attempts per second at this server, mean of the last 20 s"),
    Column(
        "waited",
        "Wait p95",
        "time from due to claimed that 95 % of this server's jobs did not exceed; the highest value of the last minute",
        is_extra=True,
    ),
    Column("oldest", "Oldest", "how long the oldest due job has been waiting"),
    Column("workers", "Workers", "job processes that serve the queue, of workers that report to the server"),
)
SORTABLE = {"queue", *(column.name for column in COLUMNS)}


@dataclass(slots=True)
class QueueRow:
    """A queue.

    Attributes:
        name: name of the queue.
        settings: its settings.
        counts: its open jobs, sampled by the server or counted now; None if neither has happened yet.
        values: the other values, by column; None if unknown.
    """

    name: str
    settings: QueueSettings
    counts: StateCounts | None
    values: Mapping[str, float | None]

    def value(self, column: str) -> float | None:
        """Return the value in a column; None if it is unknown."""
        if column in StateCounts._fields:
            return None if self.counts is None else float(getattr(self.counts, column))
        return self.values[column]


def queue_rows(
    settings: Mapping[str, QueueSettings],
    history: History,
    oldest_due_ms: Mapping[str, int],
    reports: Iterable[WorkerReport],
    now_ms: float,
) -> list[QueueRow]:
    """Return a row for each queue, by name."""
    workers = processes_by_queue(reports, now_ms)
    rows = []
    for name in sorted(settings):
        rates = history.rates(name)
        waited = [value for value in history.line(name, "waited_ms", 12) if value is not None]
        due_ms = oldest_due_ms.get(name)
        values = {
            "enqueued_rate": rates.enqueued,
            "succeeded_rate": rates.succeeded,
            "failed_rate": rates.failed,
            "waited": max(waited) / 1000 if waited else None,
            "oldest": None if due_ms is None else max(now_ms - due_ms, 0) / 1000,
            "workers": float(workers.get(name, 0)),
        }
        rows.append(QueueRow(name, settings[name], _sampled(history, name), values))
    return rows


def _sampled(history: History, queue: str) -> StateCounts | None:
    levels = [history.level(STATE_GAUGES[state.name], queue) for state in OPEN_STATES]
    known = [int(level) for level in levels if level is not None]
    if len(known) < len(levels):
        return None
    counts = StateCounts(*known)
    pending = max(counts.pending - int(history.level(DUE_RETRYING, queue) or 0), 0)
    return counts._replace(pending=pending, scheduled=counts.scheduled + waiting_for_key(history, queue))


def waiting_for_key(history: History, queue: str) -> int:
    """Return how many jobs of a queue wait for others of their key, as sampled by the server."""
    return int(history.level(WAITING_FOR_KEY, queue) or 0)


def sort_rows(rows: Iterable[QueueRow], column: str, *, is_descending: bool) -> list[QueueRow]:
    """Sort rows, which are given in the order of their names; queues whose value is unknown come last."""
    if column == "queue":
        return sorted(rows, key=lambda row: row.name, reverse=is_descending)
    known = [(value, row) for row in rows if (value := row.value(column)) is not None]
    known.sort(key=lambda pair: -pair[0] if is_descending else pair[0])
    return [row for _, row in known] + [row for row in rows if row.value(column) is None]


def total_of(rows: Collection[QueueRow]) -> StateCounts:
    """Return the sums over rows with known counts."""
    columns = list(zip(*(row.counts for row in rows if row.counts is not None), strict=True))
    return StateCounts(*map(sum, columns)) if columns else StateCounts()


def has_more(rows: Collection[QueueRow], count_limit: int) -> list[bool]:
    """Return for each open state whether the count of some queue stopped at the limit."""
    return [
        any(row.counts is not None and row.counts[index] >= count_limit for row in rows)
        for index in range(len(OPEN_STATES))
    ]


def processes_by_queue(reports: Iterable[WorkerReport], now_ms: float) -> dict[str, int]:
    """Return the number of job processes that take jobs of each queue."""
    return Counter(queue for process in serving_processes(reports, now_ms) for queue in process.queues)


class ServingWorker(NamedTuple):
    """A worker that serves a queue.

    Attributes:
        report: its latest report.
        processes: number of its processes that serve the queue.
        busy: number of these that run jobs, of any queue.
        is_silent: whether its reports have stopped, or its connection has ended.
    """

    report: WorkerReport
    processes: int
    busy: int
    is_silent: bool


def workers_of(reports: Iterable[WorkerReport], queue: str, now_ms: float) -> list[ServingWorker]:
    """Return the workers that serve a queue, those with the most processes for it first."""
    found = []
    for report in reports:
        serving = [process for process in report.processes if queue in process.queues]
        if serving:
            busy = sum(bool(process.jobs) for process in serving)
            found.append(ServingWorker(report, len(serving), busy, is_silent(report, now_ms)))
    return sorted(found, key=lambda worker: (-worker.processes, worker.report.host, worker.report.id))
