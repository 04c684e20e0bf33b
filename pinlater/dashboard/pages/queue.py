"""One queue: what is in it, how it flows, what holds it back."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.access import form_of
from pinlater.dashboard.app_state import board_of
from pinlater.dashboard.audit import audit
from pinlater.dashboard.count_cache import Counts
from pinlater.dashboard.figures import OLDEST_SECONDS
from pinlater.dashboard.forms import Refused, asked
from pinlater.dashboard.render import page

_MOST_PRIORITIES = 9
_NOTES = {
    "paused": "Paused: nothing is handed out until you resume it.",
    "resumed": "Resumed.",
    "limited": "The limits hold within a second, on all servers of the store.",
}


async def queue(request: Request) -> Response:
    """Show it."""
    board, name = board_of(request), request.path_params["queue"]
    settings = (await board.client.queue_settings()).get(name)
    levels = board.options.priority_levels
    priorities = await board.census.by_priority(name, range(1, min(levels, _MOST_PRIORITIES) + 1))
    if settings is None or not priorities:
        raise Refused(404, f"there is no queue {name[:100]}")
    counts = Counts(*map(sum, zip(*(each for _, each in priorities), strict=True)))  # not apart: sums would not agree
    if levels > _MOST_PRIORITIES:
        counts = (await board.census.of([name])).get(name, counts)
    return page(
        request,
        "queue.html",
        queue=name,
        settings=settings,
        counts=counts,
        priorities=priorities,
        oldest=board.history.level(OLDEST_SECONDS, name) if counts.pending else None,
        rates=board.history.rates(name),
        note=_NOTES.get(asked(request, "done", 20), ""),
    )


async def change(request: Request) -> Response:
    """Pause or resume it, or change its limits."""
    board, form, name = board_of(request), form_of(request), request.path_params["queue"]
    action = form.text("action", 20)
    if action in {"pause", "resume"}:
        await board.client.change_queue(name, paused=action == "pause")
        audit(request, action, name)
        done = {"pause": "paused", "resume": "resumed"}[action]
    elif action == "limit":
        rate, running = form.number("rate", 0, 1e9), form.number("running", 0, 2**31 - 1, int)
        await board.client.change_queue(name, jobs_per_second=rate or 0.0, max_running=int(running or 0))
        audit(request, f"limit(rate={rate or 'none'},running={running or 'none'})", name)
        done = "limited"
    else:
        raise Refused(400, "there is no such action")
    return RedirectResponse(f"/queues/{name}?done={done}", 303)


async def delete(request: Request) -> Response:
    """Delete it with all its jobs: the name has to be typed, and the password given once more."""
    board, form, name = board_of(request), form_of(request), request.path_params["queue"]
    if board.options.admin_hash is None:
        raise Refused(403, "queues can be deleted only where ADMIN_PASSWORD_HASH is set")
    if form.text("name", 200) != name:
        raise Refused(400, "the name that you typed is not that of the queue; nothing was deleted")
    await board.client.delete_queue(name, form.raw("password"))
    board.changed(name)
    audit(request, "delete-queue", name)
    return RedirectResponse("/", 303)
