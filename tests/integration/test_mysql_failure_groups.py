"""Failure groups on MySQL: which jobs are in them, while several servers change these at once."""

import asyncio

import pytest

from pinlater.errors import ShardConnectionFailed
from pinlater.model.failure_groups import CLAIM_EXPIRED, failure_of
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.failure_budget import MOST_CHECKED
from pinlater.server.backends.mysql import maintenance
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.records import JobFilter
from tests.integration.test_mysql_messages import running, with_tables
from tests.support.bench import QUEUE, ack_of
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of

BOOM = failure_of("Mail", "boom")


def test_a_job_that_is_being_claimed_is_not_put_back_into_its_group_by_a_stale_failure():
    async def scenario(tables, server):
        (first, old), (second, held) = [await running(server, attempts=9) for _ in range(2)]
        await server.ack_dequeued_jobs(QUEUE, [], [ack_of(first, claim=old, failure=BOOM)])
        claimed, locked = (name.rpartition(":")[2] for name in (first, second))
        other = await MysqlConnection.open(endpoint_of(shared_service()))
        await other.run(b"START TRANSACTION", tables.bind(f"SELECT id FROM {{db}}.jobs WHERE id = {locked} FOR UPDATE"))
        failures = [ack_of(first, claim=old, failure=BOOM), ack_of(second, claim=held, failure=BOOM)]
        failing = asyncio.ensure_future(server.ack_dequeued_jobs(QUEUE, [], failures))
        await tables.until_locked_out()
        await tables.run(
            "START TRANSACTION",
            f"UPDATE {{db}}.jobs SET state = 1, claim = 'new', claim_lease = 1, moment = 1 WHERE id = {claimed}",
            f"DELETE FROM {{db}}.failing_jobs WHERE id = {claimed}",
        )
        await other.run(b"COMMIT")
        await tables.until_locked_out()
        await tables.run("COMMIT")
        other.close()
        assert (await failing).changed == 1
        assert await server.count_jobs(QUEUE, JobFilter(PENDING, is_retrying=True)) == 1

    with_tables(scenario)


@pytest.mark.parametrize("jobs", [3, MOST_CHECKED + 1])
def test_what_a_server_of_version_0_1_has_changed_or_deleted_is_taken_out_of_its_group(jobs):
    async def scenario(tables, server):
        for _ in range(jobs):
            name, claim = await running(server, attempts=9)
            failure = ack_of(name, claim=claim, failure=BOOM, retry_delay_ms=1000)
            await server.ack_dequeued_jobs(QUEUE, [], [failure])
        [ids] = await tables.run("SELECT id FROM {db}.jobs ORDER BY id")
        [deleted, *_, kept] = (local_id for (local_id,) in ids)
        await tables.run(
            f"UPDATE {{db}}.jobs SET state = 2, moment = 1 WHERE id < {kept}",
            f"DELETE FROM {{db}}.jobs WHERE id = {deleted}",
            "UPDATE {db}.failure_groups SET look_at = 0",
        )
        assert await retrying(server) == jobs
        for _ in range(1 + jobs // MOST_CHECKED):
            await server.forget_results(100)
        assert await retrying(server) == 1
        [group] = await server.failure_groups([QUEUE], 9)
        assert (group.retrying, group.given_up) == (1, 0)

    async def retrying(server):
        return await server.count_jobs(QUEUE, JobFilter(PENDING, is_retrying=True))

    with_tables(scenario)


def test_a_job_that_a_server_of_version_0_1_has_given_up_is_so_in_its_group():
    async def scenario(tables, server):
        name, claim = await running(server, attempts=9)
        await server.ack_dequeued_jobs(QUEUE, [], [ack_of(name, claim=claim, failure=BOOM)])
        await tables.run("UPDATE {db}.jobs SET state = 3, moment = 1", "UPDATE {db}.failure_groups SET look_at = 0")
        await server.forget_results(100)
        [group] = await server.failure_groups([QUEUE], 9)
        assert (group.retrying, group.given_up) == (0, 1)

    with_tables(scenario)


def test_claims_that_expire_end_only_once_their_group_and_their_queues_are_known(monkeypatch):
    """Later, an error would hide that they have ended."""

    async def scenario(tables, server):
        await running(server, attempts=9)
        await tables.run("UPDATE {db}.jobs SET moment = 1")
        for owner, name in ((maintenance, "keep"), (MysqlQueues, "names_by_id")):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, refuse)
                with pytest.raises(ShardConnectionFailed):
                    await reap(server)
            assert await server.count_jobs(QUEUE, JobFilter(IN_PROGRESS)) == 1
        assert await reap(server) == [(QUEUE, 1, 0)]
        [group] = await server.failure_groups([QUEUE], 9)
        assert (group.error, group.retrying) == (CLAIM_EXPIRED.error, 1)

    async def refuse(*_):
        raise ShardConnectionFailed("gone")

    def reap(server):
        shard = server.group.registry.named("1").shard
        return shard.reap_expired(10, server_age_ms=10**9, quiet_ms=0)

    with_tables(scenario)
