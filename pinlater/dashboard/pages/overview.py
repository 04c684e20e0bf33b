"""The first page: all queues."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import Board, board_of
from pinlater.dashboard.count_cache import Counts
from pinlater.dashboard.figures import OLDEST_SECONDS, PARKED
from pinlater.dashboard.forms import asked, number
from pinlater.dashboard.render import page
from pinlater.model.records import QueueSettings

_PER_PAGE = 50


async def overview(request: Request) -> Response:
    """Show what waits, runs and fails, queue by queue."""
    board = board_of(request)
    settings = await board.client.queue_settings()
    wanted = asked(request, "q", 64)
    names = sorted(name for name in settings if wanted.lower() in name.lower())
    which = int(number("page", asked(request, "page", 9) or "1", 1, 10**6, int))
    shown = names[(which - 1) * _PER_PAGE : which * _PER_PAGE]
    counts = await board.census.of(shown)
    columns = list(zip(*counts.values(), strict=True))
    return page(
        request,
        "overview.html",
        rows=[_row(board, name, counts[name], settings[name]) for name in shown if name in counts],
        total=Counts(*map(sum, columns)) if columns else Counts(),
        has_more=[max(column) >= board.options.count_limit for column in columns] or [False] * len(Counts._fields),
        queues=len(settings),
        found=len(names),
        wanted=wanted,
        which=which,
        pages=max(-(-len(names) // _PER_PAGE), 1),
        lines={name: board.history.total_line(name) for name in ("enqueued", "succeeded", "failed")},
        parked=_parked(board),
    )


def _row(board: Board, name: str, counts: Counts, settings: QueueSettings) -> dict[str, object]:
    waited = [value for value in board.history.line(name, "waited_ms", 12) if value is not None]
    return {
        "name": name,
        "counts": counts,
        "settings": settings,
        "rates": board.history.rates(name),
        "line": board.history.line(name, "succeeded"),
        "oldest": board.history.level(OLDEST_SECONDS, name) if counts.pending else None,
        "waited": max(waited) / 1000 if waited else None,
    }


def _parked(board: Board) -> int | None:
    recent = board.history.recent()
    return None if recent is None else int(recent[2].gauges.get(PARKED, 0))
