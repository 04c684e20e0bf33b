"""The ASGI application: routes, middleware and error pages."""

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

from pinlater.client.keyed_client import KeyedClient
from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.dashboard.access import AccessMiddleware
from pinlater.dashboard.app_state import make_app_state
from pinlater.dashboard.assets import asset
from pinlater.dashboard.base_path import BasePathMiddleware
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.forwarded import ProxyHeadersMiddleware
from pinlater.dashboard.headers import SecurityHeadersMiddleware
from pinlater.dashboard.options import DashboardOptions, PlainPage
from pinlater.dashboard.pages import (
    bulk_actions,
    charts,
    classes,
    edit,
    failing,
    find,
    job,
    job_messages,
    jobs,
    login,
    overview,
    periodic,
    queue,
    server,
    workers,
)
from pinlater.dashboard.render import page
from pinlater.dashboard.repeat import repeat
from pinlater.errors import (
    CallError,
    ClientError,
    PinLaterError,
    QueueNotFound,
    ServerError,
)

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_SEARCH_SECONDS = 10.0
_PATIENCE_SECONDS = 1.0
"""Short, since a person waits: the page soon says that the server is unreachable."""

_NO_SHARD = "there is no shard"
"""What servers say about a descriptor from another store; the contract has no separate code for that."""

_CONNECTIONS = 4
"""Concurrent calls of the dashboard to the server, for all users together."""

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
    Route("/job/edit", edit.edit),
    Route("/job/replace", edit.replace, methods=["POST"]),
    Route("/enqueue", edit.show_new),
    Route("/enqueue", edit.enqueue, methods=["POST"]),
    Route("/job/delete", job.delete, methods=["POST"]),
    Route("/job/cancel", job_messages.cancel, methods=["POST"]),
    Route("/job/send", job_messages.send, methods=["POST"]),
    Route("/failing", failing.failing),
    Route("/failed", failing.failed),
    Route("/periodic", periodic.periodic),
    Route("/periodic", periodic.change, methods=["POST"]),
    Route("/plans", bulk_actions.make, methods=["POST"]),
    Route("/plans/{key}", bulk_actions.show),
    Route("/plans/{key}/start", bulk_actions.start, methods=["POST"]),
    Route("/plans/{key}/stop", bulk_actions.stop, methods=["POST"]),
    Route("/classes", classes.classes),
    Route("/workers", workers.workers),
    Route("/server", server.server),
    Route("/charts", charts.charts),
    Route("/find", find.find),
    Route("/login", login.login_page),
    Route("/login", login.login, methods=["POST"]),
    Route("/logout", login.logout, methods=["POST"]),
    Route("/static/{version}/{name:path}", asset),
]


def make_app(options: DashboardOptions) -> Starlette:
    """Build the dashboard."""
    make = functools.partial(KeyedClient, options.server, source="dashboard", patience=_PATIENCE_SECONDS)
    client = make(timeout=_CALL_SECONDS, retries=1, connections=_CONNECTIONS)
    searcher = make(timeout=_SEARCH_SECONDS, retries=0, connections=1)
    app_state = make_app_state(options, client, searcher)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        readings = {
            "read the store's time": app_state.clock_reader.read,
            "sample the metrics": app_state.history.sample,
            "scan running jobs": app_state.claim_watcher.scan,
        }
        tasks = [asyncio.create_task(repeat(read, what)) for what, read in readings.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await app_state.close()
            await client.close()
            await searcher.close()

    app = Starlette(
        routes=[*_ROUTES, *(_plain(path, make) for path, make in options.plain_pages.items())],
        middleware=[
            Middleware(BasePathMiddleware, base=options.base_path),
            Middleware(ProxyHeadersMiddleware, trusted=options.trusted_proxies),
            Middleware(SecurityHeadersMiddleware, is_tls=options.tls is not None),
            Middleware(AccessMiddleware, options=options, sessions=app_state.sessions, render_refusal=_refused),
        ],
        exception_handlers={
            RequestRefused: _refused,
            HTTPException: _no_page,
            PinLaterError: _failed,
            Exception: _broken,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # such redirects would lead to any host that the request names
    app.state.dashboard = app_state
    return app


def _plain(path: str, make: Callable[[], Awaitable[PlainPage]]) -> BaseRoute:
    async def plain(_: Request) -> Response:
        made = await make()
        return Response(made.body, made.status, media_type=made.content_type)

    return Route(path, plain)


# Error pages


def _problem(
    request: Request, status: int, title: str, text: str, back: str = "", *, retries: bool = False
) -> Response:
    return page(request, "problem.html", status, title=title, text=text[:500], back=back, retries=retries)


async def _refused(request: Request, error: Exception) -> Response:
    status, back = (error.status, error.back) if isinstance(error, RequestRefused) else (400, "")
    title = "Not found" if status == 404 else "Request refused"
    return _problem(request, status, title, _sentence(error), back)


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _problem(request, status, "Not found", "There is no page at this address.")


async def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, CallError):
        text = "It does not answer. This page retries every few seconds. If the server is running, see its log."
        return _problem(request, 503, "Server unavailable", text, retries=request.method == "GET")
    if isinstance(error, ServerError) and _NO_SHARD in str(error):
        return _problem(request, 404, "Not found", f"{_sentence(error)} Such a job may be in another store.")
    if isinstance(error, STORE_OUT_OF_REACH):
        text = f"{_sentence(error)} This page retries every few seconds."
        return _problem(request, 503, "Store unavailable", text, retries=request.method == "GET")
    status = 404 if isinstance(error, QueueNotFound) else 400 if isinstance(error, ClientError) else 502
    return _problem(request, status, "The server refused the request", _sentence(error))


async def _broken(request: Request, error: Exception) -> Response:
    log.error("failed to render the page %s", request.url.path[:200], exc_info=error)
    return _problem(
        request, 500, "Something went wrong", "The page could not be rendered. The server's log has the details."
    )


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
