"""Classes page: how often each job class runs and fails, and how long its jobs run and wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.addresses import address
from pinlater.dashboard.app_state import AppState, get_app_state, known_queue
from pinlater.dashboard.class_figures import SPANS, ClassFigures, Span, quantile_seconds
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.paging import page_of
from pinlater.dashboard.render import page
from pinlater.model.statistics import Statistics

_MOST_NAME = 300


class _Column(NamedTuple):
    """A column of figures."""

    name: str
    label: str
    help: str
    value: Callable[[ClassFigures], float | None]


_COLUMNS = (
    _Column("runs", "Runs", "attempts that have ended", lambda one: one.runs),
    _Column("failed", "Failed", "attempts that failed", lambda one: one.total.failed),
    _Column("rate", "Rate", "share of attempts that failed", lambda one: one.failure_rate),
    _Column("given_up", "Given up", "jobs that failed for good", lambda one: one.total.given_up),
    _Column("run_p50", "Run p50", "half of the attempts ran no longer", lambda one: one.run_seconds(0.5)),
    _Column("run_p95", "p95", "95 % of the attempts ran no longer", lambda one: one.run_seconds(0.95)),
    _Column("run_p99", "p99", "99 % of the attempts ran no longer", lambda one: one.run_seconds(0.99)),
    _Column("wait_p50", "Wait p50", "half of the jobs waited no longer", lambda one: one.wait_seconds(0.5)),
    _Column("wait_p95", "p95", "95 % of the jobs waited no longer", lambda one: one.wait_seconds(0.95)),
    _Column("wait_p99", "p99", "99 % of the jobs waited no longer", lambda one: one.wait_seconds(0.99)),
)
_SORTS = {column.name: column.value for column in _COLUMNS}


class _Chart(NamedTuple):
    """A figure of one class over time.

    Attributes:
        label: name on the page.
        state: the display state whose color it has.
        unit: ``jobs`` or ``seconds``.
        value: its value in one period.
    """

    label: str
    state: str
    unit: str
    value: Callable[[Statistics], float | None]


_CHARTS = (
    _Chart("succeeded", "succeeded", "jobs", lambda one: one.succeeded),
    _Chart("failed attempts", "failed", "jobs", lambda one: one.failed),
    _Chart("run p95", "running", "seconds", lambda one: quantile_seconds(one.run, 0.95)),
    _Chart("wait p95", "pending", "seconds", lambda one: quantile_seconds(one.wait, 0.95)),
)


async def classes(request: Request) -> Response:
    """Show all classes, or one of them by queue and over time."""
    app = get_app_state(request)
    queue, span = query_text(request, "queue", 200), _span(request)
    if queue:
        await known_queue(app, queue)
    name = query_text(request, "name", _MOST_NAME)
    return await (_one(request, app, name, queue, span) if name else _all(request, app, queue, span))


async def _all(request: Request, app: AppState, queue: str, span: Span) -> Response:
    wanted, sort = query_text(request, "q", 200), query_text(request, "sort", 20) or "failed"
    order = query_text(request, "order", 4)
    if sort not in {*_SORTS, "class"} or order not in {"", "asc", "desc"}:
        raise RequestRefused(400, f"classes cannot be sorted by {sort} {order}".strip(), "/classes")
    is_descending = order == "desc" or (not order and sort != "class")
    every, unread = await app.classes.get((span, queue))
    found = [one for one in every if wanted.lower() in one.name.lower()]
    fields = {"queue": queue, "q": wanted, "span": span.name, "sort": sort, "order": order}
    return page(
        request,
        "classes.html",
        queue=queue,
        wanted=wanted,
        span=span,
        spans=SPANS.values(),
        sort=sort,
        is_descending=is_descending,
        columns=_COLUMNS,
        list_page=page_of(request, _sorted(found, sort, is_descending=is_descending)),
        unread=unread,
        is_empty=not every,
        link=lambda **changed: _link(fields | changed),
        class_link=lambda one: _link({"name": one, "queue": queue, "span": span.name}),
    )


async def _one(request: Request, app: AppState, name: str, queue: str, span: Span) -> Response:
    every, unread = await app.classes.get((span, queue))
    figures = next((one for one in every if one.name == name), None)
    by_queue = [] if queue else (await app.queues_of_class.get((span, name))).figures
    fields = {"name": name, "queue": queue, "span": span.name}
    return page(
        request,
        "class.html",
        name=name,
        queue=queue,
        span=span,
        spans=SPANS.values(),
        figures=figures,
        charts=[] if figures is None else [(chart, figures.line(chart.value)) for chart in _CHARTS],
        columns=_COLUMNS,
        rows=_sorted(by_queue, "runs", is_descending=True),
        unread=unread,
        link=lambda **changed: _link(fields | changed),
    )


def _span(request: Request) -> Span:
    span = SPANS.get(query_text(request, "span", 5) or "1h")
    if span is None:
        raise RequestRefused(400, f"there is no such time; use {', '.join(SPANS)}", "/classes")
    return span


def _sorted(rows: list[ClassFigures], sort: str, *, is_descending: bool) -> list[ClassFigures]:
    """Sort rows by a column, those without a value last; equal rows by runs, then by name."""
    rows = sorted(rows, key=lambda one: (-one.runs, one.name, one.queue))
    if sort == "class":
        return sorted(rows, key=lambda one: one.name.lower(), reverse=is_descending)
    value = _SORTS[sort]
    known = [(figure, one) for one in rows if (figure := value(one)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=is_descending)
    return [one for _, one in known] + [one for one in rows if value(one) is None]


def _link(fields: Mapping[str, object]) -> str:
    return address("/classes", fields, {"span": "1h"})
