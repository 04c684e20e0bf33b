"""Queues page, which is the first page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.addresses import address
from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.chart_data import RANGES, ChartRange
from pinlater.dashboard.count_cache import OPEN_STATES
from pinlater.dashboard.finding_links import link_of
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.pages.charts import range_of
from pinlater.dashboard.paging import page_of
from pinlater.dashboard.queue_rows import (
    COLUMNS,
    SORTABLE,
    QueueRow,
    has_more,
    queue_rows,
    sort_rows,
    total_of,
    waiting_for_key,
)
from pinlater.dashboard.render import page
from pinlater.errors import PinLaterError
from pinlater.model.silence import serving_processes
from pinlater.triage.findings import Finding

_MOST_FINDINGS = 8
_PATIENCE_SECONDS = 0.3
"""How long the page waits for findings before it is shown without them."""
_PATIENCE_BESIDE_OLD_SECONDS = 0.08
"""How long it waits for new findings if it has old ones; with few queues, a reading takes less."""


class _Query(NamedTuple):
    """What an address of the page asks for.

    Attributes:
        wanted: text that the names of the queues contain; empty: all queues.
        column: column by which the queues are sorted.
        is_descending: whether the largest come first.
        has_all_findings: whether all findings are shown.
        chart_range: range of the charts.
        parameters: parameters that links to other pages of the table keep.
    """

    wanted: str
    column: str
    is_descending: bool
    has_all_findings: bool
    chart_range: ChartRange
    parameters: dict[str, str]

    def link(self, **changes: object) -> str:
        """Return the path of the page, with some parameters changed."""
        return address("/", self.parameters | changes)


async def overview(request: Request) -> Response:
    """Show job counts and rates of the queues; all figures are of the queues that match the filter."""
    app, query = get_app_state(request), _read_query(request)
    every = await _rows(app)
    found = [row for row in every if query.wanted.lower() in row.name.lower()]
    list_page = page_of(request, sort_rows(found, query.column, is_descending=query.is_descending))
    await _count(app, list_page.rows)
    names = [row.name for row in found] if query.wanted else None
    known, problem = await _findings(app)
    findings = known or []
    chosen = [finding for finding in findings if names is None or finding.queue in names]
    most = len(chosen) if query.has_all_findings else _MOST_FINDINGS
    return page(
        request,
        "overview.html",
        query=query,
        rows=[(row, app.history.line(row.name, "succeeded")) for row in list_page.rows],
        columns=COLUMNS,
        states=OPEN_STATES,
        findings=[(finding, link_of(finding, can_search=not app.options.hides_bodies)) for finding in chosen[:most]],
        more_findings=max(len(chosen) - most, 0),
        elsewhere=len(findings) - len(chosen),
        triage_problem=problem,
        is_looking=known is None and not problem,
        total=total_of(found),
        has_more=has_more(found, app.options.count_limit),
        waiting_for_key=sum(waiting_for_key(app.history, row.name) for row in found),
        uncounted=sum(row.counts is None for row in found),
        queues=len(every),
        found=len(found),
        list_page=list_page,
        lines={name: app.history.total_line(name, names) for name in ("enqueued", "succeeded", "failed")},
        workers=await _workers(app, None if names is None else set(names)),
        ranges=RANGES.values(),
    )


def _read_query(request: Request) -> _Query:
    wanted, chosen_range = query_text(request, "q", 64), range_of(request)
    column, order = query_text(request, "sort", 20) or "queue", query_text(request, "order", 4)
    if column not in SORTABLE or order not in {"", "asc", "desc"}:
        raise RequestRefused(400, f"queues cannot be sorted by {column} {order}".strip())
    return _Query(
        wanted,
        column,
        order == "desc" or (not order and column != "queue"),
        bool(query_text(request, "findings", 3)),
        chosen_range,
        {
            "q": wanted,
            "sort": column if column != "queue" else "",
            "order": order,
            "range": chosen_range.name if "range" in request.query_params else "",
        },
    )


async def _findings(app: AppState) -> tuple[list[Finding] | None, str]:
    """Return the findings, most severe first, or None while they are unknown; and the problem if there was one."""
    try:
        return await app.triage.get_within(_PATIENCE_SECONDS, seconds_beside_old=_PATIENCE_BESIDE_OLD_SECONDS), ""
    except PinLaterError as error:  # the rest of the page is still worth showing
        return None, f"What is wrong could not be found out: {str(error)[:300]}"


async def _rows(app: AppState) -> list[QueueRow]:
    settings = await app.client.queue_settings()
    oldest, reports = await app.oldest_due.get(""), await app.reports.get("")
    return queue_rows(settings, app.history, oldest, reports, app.clock.now() * 1000)


async def _count(app: AppState, shown: Iterable[QueueRow]) -> None:
    """Count the queues of one page now; those that cannot be counted in time keep the counts that they had, or none."""
    is_sampled = all(row.counts is not None for row in shown)
    counted = await app.counts.get([row.name for row in shown], is_open=True, is_urgent=is_sampled)
    for row in shown:
        row.counts = counted.get(row.name, row.counts)


async def _workers(app: AppState, queues: set[str] | None) -> int:
    """Return the number of job processes that take jobs, of any of the queues; None: of any queue at all."""
    processes = serving_processes(await app.reports.get(""), app.clock.now() * 1000)
    return sum(queues is None or not queues.isdisjoint(process.queues) for process in processes)
