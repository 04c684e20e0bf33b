"""Jobs with keys on MySQL: several servers change jobs of the same keys at once, also while connections are killed."""

import asyncio
import random

import pytest

from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, new_job
from tests.support.examples import IS_THOROUGH
from tests.support.key_crowd import KEYS, Crowd
from tests.support.mariadb_service import MariadbService
from tests.support.mysql_bench import ConnectionKills, endpoint_of, fresh_prefix, make_fleet

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
