"""A MySQL whose clock is set: the time that jobs and claims go by neither jumps with it nor stands still."""

import asyncio
import time

import pytest

from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.records import Claim
from tests.support.bench import QUEUE, checkpoint_of, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet

LEASE_MS = 5_000


class Database:
    """The servers of one database, whose clock may be set."""

    def __init__(self):
        self.ahead_ms = 0
        self._prefix = fresh_prefix()
        self.servers = []

    async def server(self):
        """Return the store as one more server has it, which knows the time."""
        server = make_fleet([endpoint_of(shared_service())], None, prefix=self._prefix)
        self.servers.append(server)
        await server.create_queue(QUEUE)
        await self.look(server)
        return server

    async def look(self, *servers):
        """Let servers read the clock, as they do every few seconds."""
        for server in servers:
            await asyncio.gather(*(handle.shard.read_clock() for handle in server.group.registry))


@pytest.fixture
def on_database(monkeypatch):
    """Run a coroutine function with a database."""
    database = Database()
    bind = Queries.bind

    def moved(self, name, /, **values):
        text = bind(self, name, **values)
        return text + b" + %d" % database.ahead_ms if name == "clock" else text

    monkeypatch.setattr(Queries, "bind", moved)

    def run(scenario):
        async def whole():
            try:
                await scenario(database)
            finally:
                for server in database.servers:
                    await server.close()

        asyncio.run(whole())

    return run


async def held(server):
    """Store jobs and claim them; return what renews them."""
    await server.enqueue_jobs(QUEUE, [new_job() for _ in range(5)])
    claim = Claim("host:1:1:worker:1", LEASE_MS)
    jobs = (await server.dequeue_jobs(QUEUE, 5, claim)).jobs
    return [checkpoint_of(job.descriptor, claim=claim.descriptor) for job in jobs]


async def reap(*servers):
    return [await server.reap_expired(1000, server_age_ms=10**9, quiet_ms=1) for server in servers]


@pytest.mark.parametrize("seconds", [60, -60])
def test_claims_that_are_renewed_do_not_expire(on_database, seconds):
    async def scenario(database):
        one, other = await database.server(), await database.server()
        renewals = await held(one)
        database.ahead_ms = seconds * 1000
        for _ in range(3):
            assert await reap(one, other) == [[], []]
            await database.look(one, other)
            assert (await other.checkpoint_jobs(QUEUE, renewals)).changed == len(renewals)
        assert await reap(one, other) == [[], []]

    on_database(scenario)


def test_a_server_that_starts_after_the_step_goes_by_the_time_of_the_others(on_database):
    async def scenario(database):
        old = await database.server()
        renewals = await held(old)
        database.ahead_ms = 60_000
        await database.look(old)
        new = await database.server()
        assert await reap(new) == [[]]
        assert (await old.checkpoint_jobs(QUEUE, renewals)).changed == len(renewals)
        assert await reap(new, old) == [[], []]

    on_database(scenario)


def test_a_job_that_was_stored_before_the_clock_was_set_back_is_not_late(on_database):
    async def scenario(database):
        server = await database.server()
        names = await server.enqueue_jobs(QUEUE, [new_job()])
        database.ahead_ms = -60_000
        await database.look(server)
        deadline = time.monotonic() + 30
        while not (taken := (await server.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:1", LEASE_MS))).jobs):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert [job.descriptor for job in taken] == names

    on_database(scenario)
