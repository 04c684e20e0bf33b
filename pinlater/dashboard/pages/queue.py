"""Queue page: job counts, throughput, limits, failures and workers of one queue."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.access import form_of
from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.audit import audit
from pinlater.dashboard.chart_data import RANGES
from pinlater.dashboard.count_cache import DISPLAY_STATES, StateCounts
from pinlater.dashboard.failing_groups import COUNTED_TO, ORDERS, failing_groups
from pinlater.dashboard.finding_links import link_of
from pinlater.dashboard.forms import Form, RequestRefused, query_text
from pinlater.dashboard.pages.charts import range_of
from pinlater.dashboard.queue_rows import workers_of
from pinlater.dashboard.render import page
from pinlater.errors import CallTimeout
from pinlater.model.queues import QueueSettings
from pinlater.model.shard_count import parse_shard_count, shard_count_word
from pinlater.model.state import JobState
from pinlater.triage.findings import Finding

_MOST_PRIORITIES = 9
_MOST_WORKERS = 12
_MOST_GROUPS = 5
_PATIENCE_SECONDS = 0.03
"""How long the page waits for findings about its queue before it uses those of the first page."""
_NOTES = {
    "paused": "The queue is paused: no jobs are handed out until you resume it.",
    "resumed": "The queue is resumed.",
    "limited": "The limits are saved. They take effect within a second on all servers of the store.",
}


async def queue(request: Request) -> Response:
    """Show a queue."""
    app, name = get_app_state(request), request.path_params["queue"]
    settings = (await app.client.queue_settings()).get(name)
    levels = app.options.priority_levels
    wanted = range(1, min(levels, _MOST_PRIORITIES) + 1)
    priorities = await app.counts.get_by_priority(name, wanted)
    if settings is None:
        raise RequestRefused(404, f"there is no queue {name[:100]}")
    if len(priorities) < len(wanted):
        raise CallTimeout(f"counting the jobs of queue {name} takes long")
    counts = StateCounts(
        *map(sum, zip(*(each for _, each in priorities), strict=True))
    )  # summed, since separate counts would not add up
    if levels > _MOST_PRIORITIES:
        counts = (await app.counts.get([name])).get(name, counts)
    due_ms = (await app.oldest_due.get("")).get(name)
    reports = await app.reports.get("")
    groups = failing_groups(await app.failure_groups.get(name), "", app.clock.now())
    return page(
        request,
        "queue.html",
        queue=name,
        settings=settings,
        shards=shard_count_word(settings),
        counts=counts,
        states=DISPLAY_STATES,
        priorities=priorities,
        waiting_for_key=await _waiting_for_key(app, name) if counts.scheduled else 0,
        oldest=None if due_ms is None else max(app.clock.now() - due_ms / 1000, 0.0),
        rates=app.history.rates(name),
        findings=[
            (finding, link_of(finding, can_search=not app.options.hides_bodies))
            for finding in await _findings(app, name)
        ],
        workers=(serving := workers_of(reports, name, app.clock.now() * 1000))[:_MOST_WORKERS],
        hidden_workers=max(len(serving) - _MOST_WORKERS, 0),
        groups=sorted(groups, key=ORDERS["jobs"].key)[:_MOST_GROUPS],
        more_groups=max(len(groups) - _MOST_GROUPS, 0),
        counted_to=COUNTED_TO,
        chart_range=range_of(request),
        ranges=RANGES.values(),
        link=lambda range: f"/queues/{name}?range={range}" if range else f"/queues/{name}",  # noqa: A006 - of the address
        processes=sum(worker.processes for worker in serving),
        note=_NOTES.get(query_text(request, "done", 20), ""),
    )


async def _waiting_for_key(app: AppState, name: str) -> int:
    return await app.client.count(name, JobState.PENDING, waiting_for_key=True, retrying=False)


async def _findings(app: AppState, name: str) -> list[Finding]:
    found = await app.triage.get_within(_PATIENCE_SECONDS, name)
    if found is not None:
        return found
    return [finding for finding in await app.triage.get_within(0.0) or () if finding.queue == name]


async def change(request: Request) -> Response:
    """Pause or resume a queue, or change its limits."""
    app, form, name = get_app_state(request), form_of(request), request.path_params["queue"]
    action = form.text("action", 20)
    if action in {"pause", "resume"}:
        await app.client.change_queue(name, paused=action == "pause")
        audit(request, action, name)
        done = {"pause": "paused", "resume": "resumed"}[action]
    elif action == "limit":
        await _change_limits(request, name)
        done = "limited"
    else:
        raise RequestRefused(400, "there is no such action")
    return RedirectResponse(f"/queues/{name}?done={done}", 303)


async def _change_limits(request: Request, name: str) -> None:
    """Change the limits that a form has; it has no rate if that comes from the server's file."""
    app, form = get_app_state(request), form_of(request)
    rate, running = form.number("rate", 0, 1e9), form.number("running", 0, 2**31 - 1, int)
    shards, has_rate = await _changed_shards(app, name, form), bool(form.all("rate"))
    await app.client.change_queue(
        name, jobs_per_second=(rate or 0.0) if has_rate else None, max_running=int(running or 0), shards=shards
    )
    said = [f"rate={rate or 'none'}"] if has_rate else []
    said += [f"running={running or 'none'}"]
    said += [f"shards={form.text('shards') or 'all'}"] if shards is not None else []
    audit(request, f"limit({','.join(said)})", name)


async def _changed_shards(app: AppState, name: str, form: Form) -> int | None:
    """Return the number of shards in a form; None if it is the current one: setting it again would restart ``auto``."""
    if not form.all("shards"):
        return None
    try:
        wanted = parse_shard_count(form.text("shards", 40) or "all")
    except ValueError as error:
        raise RequestRefused(400, str(error)) from None
    present = (await app.client.queue_settings()).get(name, QueueSettings())
    return None if wanted == (present.shards or 0) else wanted


async def delete(request: Request) -> Response:
    """Delete a queue with all its jobs; the user has to type its name, and the admin password again."""
    app, form, name = get_app_state(request), form_of(request), request.path_params["queue"]
    if app.options.admin_hash is None:
        raise RequestRefused(403, "queues can be deleted only if ADMIN_PASSWORD_HASH is set")
    if form.text("name", 200) != name:
        raise RequestRefused(400, "the name you typed does not match the queue; nothing was deleted")
    await app.client.delete_queue(name, form.raw("password"))
    app.changed(name)
    audit(request, "delete-queue", name)
    return RedirectResponse("/", 303)
