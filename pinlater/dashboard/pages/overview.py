"""Queues page, which is the first page."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.count_cache import OPEN_STATES
from pinlater.dashboard.finding_links import link_of
from pinlater.dashboard.forms import RequestRefused, number, query_text
from pinlater.dashboard.queue_rows import COLUMNS, SORTABLE, QueueRow, queue_rows, sort_rows, total_of
from pinlater.dashboard.render import page
from pinlater.errors import PinLaterError
from pinlater.triage.findings import Finding

_PER_PAGE = 50
_MOST_FINDINGS = 8
_PATIENCE_SECONDS = 0.3
"""How long the page waits for findings before it is shown without."""


async def overview(request: Request) -> Response:
    """Show job counts and rates of the queues: all figures are of the queues that match the filter."""
    app = get_app_state(request)
    wanted = query_text(request, "q", 64)
    column, order = query_text(request, "sort", 20) or "queue", query_text(request, "order", 4)
    if column not in SORTABLE or order not in {"", "asc", "desc"}:
        raise RequestRefused(400, f"queues cannot be sorted by {column} {order}".strip())
    is_descending = order == "desc" or (not order and column != "queue")
    which = int(number("page", query_text(request, "page", 9) or "1", 1, 10**6, int))
    every = await _rows(app)
    found = [row for row in every if wanted.lower() in row.name.lower()]
    shown = await _page(app, sort_rows(found, column, is_descending=is_descending), which)
    names = [row.name for row in found] if wanted else None
    findings, problem = await _findings(app)
    chosen = [finding for finding in findings if names is None or finding.queue in names]
    most = len(chosen) if query_text(request, "findings", 3) else _MOST_FINDINGS
    filters = {"q": wanted, "sort": column if column != "queue" else "", "order": order}
    return page(
        request,
        "overview.html",
        rows=[(row, app.history.line(row.name, "succeeded")) for row in shown],
        columns=COLUMNS,
        states=OPEN_STATES,
        sort=column,
        is_descending=is_descending,
        findings=[(finding, link_of(finding)) for finding in chosen[:most]],
        more_findings=max(len(chosen) - most, 0),
        elsewhere=len(findings) - len(chosen),
        triage_problem=problem,
        total=total_of(found),
        has_more=[
            any(row.counts is not None and row.counts[index] >= app.options.count_limit for row in found)
            for index in range(len(OPEN_STATES))
        ],
        uncounted=sum(row.counts is None for row in found),
        queues=len(every),
        found=len(found),
        wanted=wanted,
        which=which,
        pages=max(-(-len(found) // _PER_PAGE), 1),
        lines={name: app.history.total_line(name, names) for name in ("enqueued", "succeeded", "failed")},
        workers=await _workers(app, None if names is None else set(names)),
        link=lambda **changes: _link(filters | changes),
    )


async def _findings(app: AppState) -> tuple[list[Finding], str]:
    """Return what is wrong, sickest first, or why that is unknown: the rest of the page is worth showing."""
    try:
        findings = await app.triage.get_within(_PATIENCE_SECONDS)
    except PinLaterError as error:
        return [], f"What is wrong could not be found out: {str(error)[:300]}"
    return ([], "Looking for what is wrong…") if findings is None else (findings, "")


async def _rows(app: AppState) -> list[QueueRow]:
    settings = await app.client.queue_settings()
    oldest, reports = await app.oldest_due.get(""), await app.reports.get("")
    return queue_rows(settings, app.history, oldest, reports, time.time() * 1000)


async def _page(app: AppState, rows: list[QueueRow], which: int) -> list[QueueRow]:
    """Return the rows of one page, counted now; queues that have gone are left out."""
    shown = rows[(which - 1) * _PER_PAGE : which * _PER_PAGE]
    is_sampled = all(row.counts is not None for row in shown)
    counted = await app.counts.get([row.name for row in shown], is_open=True, is_urgent=is_sampled)
    for row in shown:
        row.counts = counted.get(row.name, row.counts)
    return [row for row in shown if row.counts is not None]


async def _workers(app: AppState, queues: set[str] | None) -> int:
    """Return the number of job processes that serve any of the queues, or of all if there is no filter."""
    return sum(
        queues is None or not queues.isdisjoint(process.queues)
        for report in await app.reports.get("")
        for process in report.processes
    )


def _link(filters: dict[str, str]) -> str:
    return f"/?{urlencode({name: value for name, value in filters.items() if value})}"
