"""Queues page, which is the first page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.count_cache import StateCounts
from pinlater.dashboard.figures import OLDEST_SECONDS, PARKED
from pinlater.dashboard.forms import number, query_text
from pinlater.dashboard.render import page
from pinlater.model.queues import QueueSettings

_PER_PAGE = 50


async def overview(request: Request) -> Response:
    """Show job counts and rates of all queues."""
    app = get_app_state(request)
    settings = await app.client.queue_settings()
    wanted = query_text(request, "q", 64)
    names = sorted(name for name in settings if wanted.lower() in name.lower())
    which = int(number("page", query_text(request, "page", 9) or "1", 1, 10**6, int))
    shown = names[(which - 1) * _PER_PAGE : which * _PER_PAGE]
    counts = await app.counts.get(shown)
    columns = list(zip(*counts.values(), strict=True))
    return page(
        request,
        "overview.html",
        rows=[_row(app, name, counts[name], settings[name]) for name in shown if name in counts],
        total=StateCounts(*map(sum, columns)) if columns else StateCounts(),
        has_more=[max(column) >= app.options.count_limit for column in columns] or [False] * len(StateCounts._fields),
        queues=len(settings),
        found=len(names),
        wanted=wanted,
        which=which,
        pages=max(-(-len(names) // _PER_PAGE), 1),
        lines={name: app.history.total_line(name) for name in ("enqueued", "succeeded", "failed")},
        parked=_parked(app),
    )


def _row(app: AppState, name: str, counts: StateCounts, settings: QueueSettings) -> dict[str, object]:
    waited = [value for value in app.history.line(name, "waited_ms", 12) if value is not None]
    return {
        "name": name,
        "counts": counts,
        "settings": settings,
        "rates": app.history.rates(name),
        "line": app.history.line(name, "succeeded"),
        "oldest": app.history.level(OLDEST_SECONDS, name) if counts.pending else None,
        "waited": max(waited) / 1000 if waited else None,
    }


def _parked(app: AppState) -> int | None:
    recent = app.history.recent()
    return None if recent is None else int(recent[2].gauges.get(PARKED, 0))
