"""Jobs with keys on MySQL: several servers change jobs of the same keys at once, also while connections are killed."""

import asyncio
import random

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.examples import IS_THOROUGH
from tests.support.key_crowd import KEYS, Crowd
from tests.support.mariadb_service import MariadbService
from tests.support.mysql_bench import ConnectionKills, endpoint_of, fresh_prefix, make_fleet, with_servers

JOBS_OF_A_KEY = 80 if IS_THOROUGH else 40
THROUGH = f"""
SELECT job_key, COUNT(*) FROM {{database}}.jobs
WHERE job_key IS NOT NULL AND (state = 1 OR (state = 0 AND run_after < {WAITS_FOR_KEY_MS})) GROUP BY job_key
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with MariadbService(tmp_path_factory.mktemp("keys")) as service:
        yield service


async def watch(crowd, endpoint, databases):
    """Look into the tables, which no answer can be late for."""
    connection = await MysqlConnection.open(endpoint)
    limits = {key.text.encode(): key.max_running for key in KEYS if key is not None and key.max_running is not None}
    while not crowd.is_over:
        for database in databases:
            [(rows, _, _)] = await connection.run(THROUGH.format(database=database).encode())
            crowd.faults += [
                f"{count} of {text} are let through" for text, count in rows if count > limits.get(text, 1000)
            ]
        await asyncio.sleep(0.01)
    connection.close()


def run_crowd(service, *, is_killing):
    async def check():
        prefix, endpoint = fresh_prefix(), endpoint_of(service)
        databases = [f"{prefix}{number}" for number in (1, 2)]
        kills = ConnectionKills(endpoint, random.Random(1))
        servers = [make_fleet([endpoint, endpoint], None, prefix=prefix, on_commit=kills.on_commit) for _ in range(2)]
        await servers[0].create_queue(QUEUE)
        crowd = Crowd(servers, JOBS_OF_A_KEY, is_losing=True)
        await crowd.work(kills.until(lambda: crowd.is_over) if is_killing else watch(crowd, endpoint, databases))
        assert crowd.faults == []
        for state, count in ((PENDING, 0), (IN_PROGRESS, 0), (SUCCEEDED, crowd.jobs)):
            assert await servers[0].count_jobs(QUEUE, JobFilter(state)) == count
        connection = await MysqlConnection.open(endpoint)
        found = await connection.run(*(f"SELECT COUNT(*) FROM {name}.keyed_jobs".encode() for name in databases))
        connection.close()
        assert [result.rows[0][0] for result in found] == [0, 0]
        await asyncio.gather(*(server.close() for server in servers))
        return kills

    return asyncio.run(check())


def test_limits_and_order_hold_over_servers_that_change_the_same_keys_at_once(service):
    run_crowd(service, is_killing=False)


def test_limits_and_order_hold_while_connections_are_killed(service):
    kills = run_crowd(service, is_killing=True)
    assert kills.kills > 5
    assert kills.failed_commits > 0, "or nothing was killed that mattered"


def test_what_a_server_of_the_version_before_has_ended_is_made_good_by_the_next_change(service):
    key = JobKey("a", 1)

    async def scenario():
        prefix, endpoint = fresh_prefix(), endpoint_of(service)
        server = make_fleet([endpoint], None, prefix=prefix)
        await server.create_queue(QUEUE)
        first, second = await server.enqueue_jobs(QUEUE, [new_job(key=key), new_job(key=key)])
        claim = Claim("host:1:1:worker:1", 60_000)
        assert [job.descriptor for job in (await server.dequeue_jobs(QUEUE, 5, claim)).jobs] == [first]
        connection = await MysqlConnection.open(endpoint)
        await connection.run(f"UPDATE {prefix}1.jobs SET state = 2, moment = 1 WHERE state = 1".encode())
        connection.close()
        assert (await server.dequeue_jobs(QUEUE, 5, claim)).jobs == []
        await server.enqueue_jobs(QUEUE, [new_job(key=key)])
        assert [job.descriptor for job in (await server.dequeue_jobs(QUEUE, 5, claim)).jobs] == [second]
        await server.close()

    asyncio.run(scenario())


async def cost_of(packets, call):
    """Make a call; return its result, and how many statements each of its packets had."""
    packets.clear()
    result = await call
    return result, list(packets)


async def round_of(server, packets, key):
    """Enqueue a job, take it and end it; return how many statements each packet of the three calls had."""
    claim = Claim("host:1:1:worker:1", 60_000)
    _, enqueue = await cost_of(packets, server.enqueue_jobs(QUEUE, [new_job(key=key)]))
    taken, dequeue = await cost_of(packets, server.dequeue_jobs(QUEUE, 1, claim))
    ack = ack_of(taken.jobs[0].descriptor, claim=claim.descriptor)
    _, end = await cost_of(packets, server.ack_dequeued_jobs(QUEUE, [ack], []))
    return enqueue, dequeue, end


async def warm_up(server, key):
    """So that ids are reserved, and it is known that the queue has keys."""
    await round_of(server, [], key)


@pytest.mark.parametrize("key", [JobKey("a"), JobKey("a", 2), JobKey("a", 1, is_ordered=True)])
def test_a_job_whose_key_no_other_has_costs_few_statements(packets, key):
    async def scenario(server):
        await warm_up(server, key)
        enqueue, dequeue, end = await round_of(server, packets, key)
        reads = 1 if key.max_running is None else 2
        assert enqueue == [2 + reads, 3], "begin, lock the key, read it; insert, copy, commit"
        assert dequeue in ([3, 4, 1], [3, 1, 4, 1]), "find jobs; claim, lock the key, copy, read it; commit"
        assert end == [3, 3, 1], "begin, end, look for keys; lock the key, delete the copy, read it; commit"

    with_servers(scenario)


def test_a_job_that_waits_for_its_key_costs_few_statements(packets):
    key = JobKey("a")

    async def scenario(server):
        await warm_up(server, key)
        await server.enqueue_jobs(QUEUE, [new_job(key=key) for _ in range(30)])
        enqueue, dequeue, end = await round_of(server, packets, key)
        assert enqueue == [3, 3]
        assert dequeue in ([3, 4, 4], [3, 1, 4, 4]), "the same; let one through in three tables, commit"
        assert end == [3, 3, 1]

    with_servers(scenario)


def test_many_jobs_with_keys_are_stored_with_few_statements(packets):
    async def scenario(server):
        await warm_up(server, JobKey("a"))
        jobs = [new_job(key=JobKey(f"{number}")) for number in range(600)]
        for _ in ("new keys", "keys of which a job is let through"):
            _, sent = await cost_of(packets, server.enqueue_jobs(QUEUE, jobs))
            assert sent == [4, 3], "500 keys are read by one statement"

    with_servers(scenario)


def test_a_dequeue_that_takes_all_of_one_key_reads_it_in_few_steps(packets):
    key, claim = JobKey("a"), Claim("host:1:1:worker:1", 60_000)

    async def scenario(server):
        await server.enqueue_jobs(QUEUE, [new_job(key=key) for _ in range(300)])
        packets.clear()
        found = await server.dequeue_jobs(QUEUE, 200, claim)
        assert len(found.jobs) == 200
        assert len(packets) <= 8, "twice: find jobs, claim them, look what waits; let one through and commit"
        assert found.has_more
        assert len((await server.dequeue_jobs(QUEUE, 200, claim)).jobs) == 100

    with_servers(scenario)


def test_dequeues_that_wait_for_jobs_of_one_key_get_them_in_one_transaction(packets):
    key, claim = JobKey("a"), Claim("host:1:1:worker:1", 60_000)

    async def scenario(server):
        await warm_up(server, key)
        names = await server.enqueue_jobs(QUEUE, [new_job(key=key) for _ in range(6)])
        packets.clear()
        found = await asyncio.gather(*(server.dequeue_jobs(QUEUE, 1, claim, want_next_due=True) for _ in range(5)))
        assert [job.descriptor for each in found for job in each.jobs] == names[:5]
        assert all(each.has_more for each in found)
        assert len(packets) <= 7, "find the first job; claim it, let others through; find them; claim them; commit"

    with_servers(scenario)


def test_what_a_server_of_the_version_before_has_deleted_holds_up_nothing(service):
    """Its copy is left over."""
    key, claim = JobKey("a", 1), Claim("host:1:1:worker:1", 60_000)

    async def scenario():
        prefix, endpoint = fresh_prefix(), endpoint_of(service)
        server = make_fleet([endpoint], None, prefix=prefix)
        await server.create_queue(QUEUE)
        first, second, third = await server.enqueue_jobs(QUEUE, [new_job(key=key) for _ in range(3)])
        deleted = JobDescriptor.parse(second).local_id
        connection = await MysqlConnection.open(endpoint)
        await connection.run(f"DELETE FROM {prefix}1.jobs WHERE id = {deleted}".encode())
        connection.close()
        for name in (first, third):
            found = []
            while not found:
                found = [job.descriptor for job in (await server.dequeue_jobs(QUEUE, 5, claim)).jobs]
                if not found:
                    await server.enqueue_jobs(QUEUE, [new_job(key=key)])
            assert found == [name]
            await server.ack_dequeued_jobs(QUEUE, [ack_of(name, claim=claim.descriptor)], [])
        await server.close()

    asyncio.run(scenario())
