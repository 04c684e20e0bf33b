"""Servers on one database that want the same at the same time: none is in the way of others, none is told of it."""

import asyncio
import itertools
import random
from contextlib import asynccontextmanager

import pytest

from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.mysql import connection, errors
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.records import JobFilter
from tests.integration.mysql_servers import claim, with_servers
from tests.support.bench import QUEUE, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix

# Who works on one thing is not in the way of who works on another.


@pytest.fixture
def deadlocks(monkeypatch):
    """Return a list of all deadlocks, also those that were tried again."""
    met = []

    def noted(error):
        if error.args and error.args[0] == errors.DEADLOCK:
            met.append(str(error))
        return errors.classify(error)

    monkeypatch.setattr(connection, "classify", noted)
    return met


async def failed_jobs(server, count, *, at_once=100):
    """Leave some jobs FAILED."""
    for _ in range(count // at_once):
        await server.enqueue_jobs(QUEUE, [new_job(attempts=1)] * at_once)
        held = claim()
        found = await server.dequeue_jobs(QUEUE, at_once, held)
        acks = [StoredAck(JobDescriptor.parse(job.descriptor), held.descriptor, "", 0, False) for job in found.jobs]
        await server.ack_dequeued_jobs(QUEUE, [], acks)


def test_retries_by_hand_and_collection_walk_along_different_indexes(deadlocks):
    async def scenario(servers, clock):
        for _ in range(25):
            await failed_jobs(servers[0], 100)
            clock.advance(10)
            await asyncio.gather(
                servers[0].retry_failed_jobs(QUEUE, 1, 1, None, 10),
                *(server.collect_finished(1, 1, 10) for server in servers),
            )

    with_servers(scenario)
    assert deadlocks == []


def test_retries_by_hand_at_once_get_what_they_want():
    async def scenario(servers, _):
        await failed_jobs(servers[0], 200)
        moved = await asyncio.gather(*(server.retry_failed_jobs(QUEUE, 1, 2, None, 20) for server in servers * 3))
        assert moved == [20] * 9
        assert await servers[0].count_jobs(QUEUE, JobFilter(PENDING)) == 180

    with_servers(scenario)


def test_queues_are_made_filled_deleted_and_swept_by_all(deadlocks):
    async def life(server, queue):
        await server.create_queue(queue)
        await server.enqueue_jobs(queue, [new_job(priority=n % 3 + 1) for n in range(30)])
        await server.dequeue_jobs(queue, 5, claim())
        await server.delete_queue(queue)
        await server.collect_finished(1, 1, 20)

    async def scenario(servers, _):
        for turn in range(8):
            await asyncio.gather(*(life(server, f"queue{turn}_{number}") for number, server in enumerate(servers * 3)))
            await asyncio.gather(*(server.enqueue_jobs(QUEUE, [new_job()] * 5) for server in servers))

    with_servers(scenario)
    assert deadlocks == []


@asynccontextmanager
async def standing_still(prefix, statement, **values):
    """A server that stands still in a transaction, behind this statement."""
    one = await connection.MysqlConnection.open(endpoint_of(shared_service()))
    try:
        await one.run(b"START TRANSACTION", Queries(f"{prefix}1").bind(statement, **values))
        yield
    finally:
        one.close()


def test_a_queue_that_is_being_changed_holds_up_no_other():
    prefix = fresh_prefix()

    async def scenario(servers, _):
        await servers[0].create_queue("thumbnails")
        async with standing_still(prefix, "settings_of_queue", name="thumbnails"):
            await servers[1].enqueue_jobs(QUEUE, [new_job(), new_job(unique_key="k")])
            assert len((await servers[2].dequeue_jobs(QUEUE, 5, claim(), max_running=9)).jobs) == 2

    with_servers(scenario, prefix=prefix)


def test_a_server_that_stands_still_while_it_claims_keeps_nobody_from_storing_jobs():
    prefix = fresh_prefix()

    async def scenario(servers, _):
        await servers[0].dequeue_jobs(QUEUE, 1, claim(), max_running=9)
        async with standing_still(prefix, "lock_claims", queue=1):
            await servers[1].enqueue_jobs(QUEUE, [new_job(), new_job(unique_key="k")])
            assert len((await servers[2].dequeue_jobs(QUEUE, 5, claim())).jobs) == 2

    with_servers(scenario, prefix=prefix)


# Who works on the same thing at the same time is told nothing of it.


def test_many_servers_settle_and_renew_the_same_jobs():
    async def act(server, held, jobs, act):
        some = random.sample(jobs, 30)
        if act == "renew":
            renewals = [StoredCheckpoint(job, held, "worker", None, False, None, None, "") for job in some]
            await server.checkpoint_jobs(QUEUE, [*renewals[:15], *(one._replace(body=b"x") for one in renewals[15:])])
            return 0
        acks = [StoredAck(job, held, f"{act} {number % 7}", number % 5, False) for number, job in enumerate(some)]
        settled = await server.ack_dequeued_jobs(QUEUE, acks[:15], acks[15:])
        return settled.changed

    async def scenario(servers, _):
        for _ in range(12):
            await servers[0].enqueue_jobs(QUEUE, [new_job() for _ in range(60)])
            held = claim()
            found = await servers[0].dequeue_jobs(QUEUE, 60, held)
            jobs = [JobDescriptor.parse(job.descriptor) for job in found.jobs]
            acts = itertools.product(("ack", "renew"), servers * 2)
            changed = await asyncio.gather(*(act(server, held.descriptor, jobs, what) for what, server in acts))
            assert sum(changed) <= len(jobs), "each was settled once"

    with_servers(scenario, count=6)


def test_many_servers_store_the_same_keys():
    async def store(server, keys):
        return dict(zip(keys, await server.enqueue_jobs(QUEUE, [new_job(unique_key=key) for key in keys]), strict=True))

    async def scenario(servers, _):
        for turn in range(8):
            keys = [f"{turn} {number}" for number in range(40)]
            stored = await asyncio.gather(*(store(server, random.sample(keys, 20)) for server in servers * 3))
            holders = {}
            for names in stored:
                for key, name in names.items():
                    assert holders.setdefault(key, name) == name

    with_servers(scenario, count=6)
