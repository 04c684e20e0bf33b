"""Databases that take the words of a lock and do not lock: refused, and even there no job has two holders."""

import asyncio
import itertools

import pytest

from pinlater.errors import UnknownError
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.errors import ConnectFailed
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, START_MS, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet
from tests.support.network import Network


def understand(monkeypatch, name, change):
    """Let databases understand a statement in another way."""
    bind = Queries.bind

    def understood(self, asked, /, **values):
        statement = bind(self, asked, **values)
        return change(statement) if asked == name else statement

    monkeypatch.setattr(Queries, "bind", understood)


@pytest.mark.parametrize(
    ("ending", "complaint"),
    [
        (b"", "does not lock rows"),
        (b" FOR UPDATE", "waits for locked rows instead of skipping them"),
        (b" FOR UPDATE SKIP", "does not support SKIP LOCKED"),
    ],
)
def test_a_database_that_locks_no_rows_is_refused(monkeypatch, ending, complaint):
    understand(monkeypatch, "lock_version", lambda statement: statement.replace(b" FOR UPDATE SKIP LOCKED", ending))

    async def scenario():
        pool = MysqlPool(endpoint_of(shared_service()), 1)
        try:
            async with Database("1", pool, Queries(f"{fresh_prefix()}1")).connection():
                pass
        finally:
            pool.close()

    with pytest.raises(ConnectFailed, match=f"{complaint}.*use MariaDB 10.6 or newer, or MySQL 8.0"):
        asyncio.run(scenario())


def test_servers_that_start_at_once_do_not_take_each_other_for_such():
    async def scenario():
        pools = [MysqlPool(endpoint_of(shared_service()), 2) for _ in range(8)]
        database = f"{fresh_prefix()}1"

        async def connect(pool):
            async with Database("1", pool, Queries(database)).connection() as connection:
                return await connection.run(b"SELECT 1")

        await asyncio.gather(*map(connect, pools))
        for pool in pools:
            pool.close()

    asyncio.run(scenario())


def test_no_job_has_two_holders_where_looking_locks_nothing(monkeypatch):
    understand(monkeypatch, "claimable_jobs", lambda statement: statement.replace(b" FOR UPDATE SKIP LOCKED", b""))
    claims = itertools.count(1)

    async def consume(server, taken, refused):
        while True:
            try:
                found = await server.dequeue_jobs(QUEUE, 10, Claim(f"host:1:1:worker:{next(claims)}", 60_000))
            except UnknownError as error:
                refused.append(str(error))
                continue
            taken += [job.descriptor for job in found.jobs]
            if not found.jobs:
                return

    async def scenario(port):
        prefix = fresh_prefix()
        endpoint = endpoint_of(shared_service(), port=port)
        servers = [make_fleet([endpoint], lambda: START_MS, prefix=prefix) for _ in range(2)]
        await servers[0].create_queue(QUEUE)
        names = await servers[0].enqueue_jobs(QUEUE, [new_job() for _ in range(60)])
        assert await servers[1].count_jobs(QUEUE, JobFilter(IN_PROGRESS)) == 0  # it is connected now
        taken, refused = [], []
        async with asyncio.timeout(60):
            while set(taken) != set(names):
                await asyncio.gather(*(consume(server, taken, refused) for server in servers))
        assert len(taken) == len(names)
        assert await servers[0].count_jobs(QUEUE, JobFilter(IN_PROGRESS)) == len(names)
        await asyncio.gather(*(server.close() for server in servers))
        return refused

    with Network(shared_service().port, there=0.02) as network:  # both look before one of them has marked anything
        refused = asyncio.run(scenario(network.port))
    assert refused
    assert "supports row locks" in refused[0]
