"""What all pages share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJobs
from pinlater.dashboard.bulk_actions import Plans
from pinlater.dashboard.claim_holders import Claims, claims_of
from pinlater.dashboard.count_cache import Census
from pinlater.dashboard.failures import Failures, failures_of
from pinlater.dashboard.first_seen import Sightings
from pinlater.dashboard.forms import Refused
from pinlater.dashboard.history import History
from pinlater.dashboard.options import Options
from pinlater.dashboard.sessions import Doorkeeper, Role, Sessions
from pinlater.dashboard.ttl_cache import Fresh
from pinlater.dashboard.watch import Watch
from pinlater.model.records import WorkerReport


@dataclass(frozen=True, slots=True)
class Board:
    """The parts behind the pages.

    Attributes:
        options: settings.
        client: of the server.
        searcher: likewise, for regular expressions: one at a time, none repeated, for they cost the server seconds.
        census: counts jobs.
        history: of the figures.
        plans: changes of many jobs.
        sightings: of claims.
        watch: sees to these.
        sessions: who has logged in.
        doorkeeper: checks passwords.
        failures: failed jobs by queue; the empty name is all queues.
        periodic: periodic jobs, likewise.
        claims: those of running jobs, likewise.
        reports: what workers say of themselves, whatever is asked for.
        search: held by the one search of bodies that may run.
    """

    options: Options
    client: AsyncVerbs
    searcher: AsyncVerbs
    census: Census
    history: History
    plans: Plans
    sightings: Sightings
    watch: Watch
    sessions: Sessions
    doorkeeper: Doorkeeper
    failures: Fresh[Failures]
    periodic: Fresh[PeriodicJobs]
    claims: Fresh[Claims]
    reports: Fresh[list[WorkerReport]]
    search: asyncio.Lock

    def changed(self, queue: str) -> None:
        """Look anew: something was changed in a queue."""
        self.census.forget(queue)
        self.failures.forget()
        self.claims.forget()


def make_board(options: Options, client: AsyncVerbs, searcher: AsyncVerbs) -> Board:
    """Put the parts together."""
    census, sightings, history = Census(client), Sightings(), History(options.look)

    async def chosen(queue: str) -> list[str]:
        return [queue] if queue else sorted(await client.queue_names())

    async def failures(queue: str) -> Failures:
        return await failures_of(client, await chosen(queue))

    async def periodic(queue: str) -> PeriodicJobs:
        return await client.periodic_jobs(await chosen(queue))

    async def claims(queue: str) -> Claims:
        return await claims_of(client, sightings, await chosen(queue))

    async def reports(_: str) -> list[WorkerReport]:
        return await client.workers()

    fresh_failures = Fresh(failures)

    def changed(queue: str) -> None:
        census.forget(queue)
        fresh_failures.forget()

    hashes = {Role.ADMIN: options.admin_hash, Role.READER: options.reader_hash}
    return Board(
        options,
        client,
        searcher,
        census,
        history,
        Plans(client, changed),
        sightings,
        Watch(client, history, sightings),
        Sessions(),
        Doorkeeper({role: stored for role, stored in hashes.items() if stored}),
        fresh_failures,
        Fresh(periodic),
        Fresh(claims),
        Fresh(reports),
        asyncio.Lock(),
    )


def board_of(request: Request) -> Board:
    """Return the parts behind the page that is asked for."""
    board: Board = request.app.state.board
    return board


async def known_queue(board: Board, name: str) -> str:
    """Return ``name`` if there is such a queue.

    Raises:
        Refused: there is none.
    """
    if name not in await board.client.queue_names():
        raise Refused(404, f"there is no queue {name[:100]}")
    return name
