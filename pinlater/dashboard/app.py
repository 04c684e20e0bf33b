"""The ASGI application: addresses, what guards them, and what is shown when something is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pinlater.client.async_client import AsyncClient
from pinlater.dashboard.access import Access
from pinlater.dashboard.app_state import make_board
from pinlater.dashboard.assets import asset
from pinlater.dashboard.base_path import Based
from pinlater.dashboard.forms import Refused
from pinlater.dashboard.forwarded import Forwarded
from pinlater.dashboard.headers import Guarded
from pinlater.dashboard.options import Options, PlainPage
from pinlater.dashboard.pages import (
    bulk_actions,
    charts,
    failed,
    find,
    job,
    jobs,
    login,
    overview,
    queue,
    server,
    workers,
)
from pinlater.dashboard.render import page
from pinlater.errors import (
    CallError,
    ClientError,
    NoHealthyShards,
    PinLaterError,
    QueueNotFound,
    ShardConnectionFailed,
)

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_SEARCH_SECONDS = 10.0
_PATIENCE_SECONDS = 1.0
"""Who looks at a page wants to know soon that the server is away."""

_CONNECTIONS = 4
"""So many calls of this process are under way at once, whoever looks."""

_ROUTES = [
    Route("/", overview.overview),
    Route("/queues/{queue}", queue.queue),
    Route("/queues/{queue}", queue.change, methods=["POST"]),
    Route("/queues/{queue}/delete", queue.delete, methods=["POST"]),
    Route("/jobs", jobs.jobs),
    Route("/job", job.job),
    Route("/job/body", job.reveal, methods=["POST"]),
    Route("/job/retry", job.retry, methods=["POST"]),
    Route("/job/run-now", job.run_now, methods=["POST"]),
    Route("/job/delete", job.delete, methods=["POST"]),
    Route("/failed", failed.failed),
    Route("/plans", bulk_actions.make, methods=["POST"]),
    Route("/plans/{key}", bulk_actions.show),
    Route("/plans/{key}/start", bulk_actions.start, methods=["POST"]),
    Route("/plans/{key}/stop", bulk_actions.stop, methods=["POST"]),
    Route("/workers", workers.workers),
    Route("/server", server.server),
    Route("/charts", charts.charts),
    Route("/find", find.find),
    Route("/login", login.login_page),
    Route("/login", login.login, methods=["POST"]),
    Route("/logout", login.logout, methods=["POST"]),
    Route("/static/{version}/{name:path}", asset),
]


def make_app(options: Options) -> Starlette:
    """Return the dashboard."""
    make = functools.partial(AsyncClient, options.server, source="dashboard", patience=_PATIENCE_SECONDS)
    client = make(timeout=_CALL_SECONDS, retries=1, connections=_CONNECTIONS)
    searcher = make(timeout=_SEARCH_SECONDS, retries=0, connections=1)
    board = make_board(options, client, searcher)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(board.history.run()), asyncio.create_task(board.watch.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await board.plans.close()
            await client.close()
            await searcher.close()

    app = Starlette(
        routes=[*_ROUTES, *(_plain(path, make) for path, make in options.plain_pages.items())],
        middleware=[
            Middleware(Based, base=options.base_path),
            Middleware(Forwarded, trusted=options.trusted_proxies),
            Middleware(Guarded, is_tls=options.tls is not None),
            Middleware(Access, options=options, sessions=board.sessions, show=_refused),
        ],
        exception_handlers={Refused: _refused, HTTPException: _no_page, PinLaterError: _failed, Exception: _broken},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # it would lead to whatever host the request names
    app.state.board = board
    return app


def _plain(path: str, make: Callable[[], Awaitable[PlainPage]]) -> BaseRoute:
    async def plain(_: Request) -> Response:
        made = await make()
        return Response(made.body, made.status, media_type=made.content_type)

    return Route(path, plain)


# What is shown when something is wrong


def _problem(
    request: Request, status: int, title: str, text: str, back: str = "", *, retries: bool = False
) -> Response:
    return page(request, "problem.html", status, title=title, text=text[:500], back=back, retries=retries)


async def _refused(request: Request, error: Exception) -> Response:
    status, back = (error.status, error.back) if isinstance(error, Refused) else (400, "")
    title = "Nothing here" if status == 404 else "Not done"
    return _problem(request, status, title, _sentence(error), back)


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _problem(request, status, "Nothing here", "There is no such page.")


async def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, CallError):
        text = "It does not answer; this page looks again every few seconds. Its own log says why, if it runs."
        return _problem(request, 503, "The server is away", text, retries=request.method == "GET")
    if isinstance(error, NoHealthyShards | ShardConnectionFailed):
        text = f"{_sentence(error)} This page looks again every few seconds."
        return _problem(request, 503, "The store is away", text, retries=request.method == "GET")
    status = 404 if isinstance(error, QueueNotFound) else 400 if isinstance(error, ClientError) else 502
    return _problem(request, status, "The server refused this", _sentence(error))


async def _broken(request: Request, error: Exception) -> Response:
    log.error("the page %s could not be made", request.url.path[:200], exc_info=error)
    return _problem(request, 500, "This page could not be made", "The server's log has the reason.")


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
