"""Shards with replicas: a source that waits for them, and a fail-over to one that was behind."""

import asyncio
import itertools

import pytest

from pinlater.errors import PinLaterError, QueueNotFound
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING, SUCCEEDED
from pinlater.server.backends.mysql import database, group_commit
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.shard import MysqlShard
from pinlater.server.backends.records import Claim, IdempotencyKey, JobFilter
from pinlater.server.backends.sharded import ShardSpec, shard_handle
from tests.support.bench import QUEUE, FakeClock, new_job
from tests.support.mariadb_service import MariadbService, is_mysql, shared_service, skip_if_missing
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet
from tests.support.waiting import until

_claims = itertools.count(1)


def claim():
    return Claim(f"host:1:1:worker:{next(_claims)}", 60_000)


async def run(service, *statements):
    connection = await MysqlConnection.open(endpoint_of(service))
    try:
        return await connection.run(*(statement.encode() for statement in statements))
    finally:
        connection.close()


@pytest.fixture
def start(tmp_path):
    """Starts servers with binary logs."""
    skip_if_missing()
    if is_mysql():
        pytest.skip("the statements are MariaDB's")
    services = []

    def start(*options):
        folder, number = tmp_path / str(len(services)), len(services) + 1
        folder.mkdir()
        binary_log = (f"--server-id={number}", "--log-bin=binlog", "--binlog-format=ROW")
        services.append(MariadbService(folder, *binary_log, *options))
        return services[-1]

    yield start
    for service in services:
        service.end()


def test_a_shard_that_commits_nothing_is_left_alone_until_it_does(monkeypatch, start):
    """It answers, but its commits wait: here for a replica; members of a group that lost the others do the same."""
    monkeypatch.setattr(shard_handle, "PROBE_SECONDS", (0.01, 0.01))
    source = start("--rpl-semi-sync-master-timeout=3600000")
    ping, failed = MysqlShard.ping, []

    async def counted_ping(shard, **options):
        try:
            await ping(shard, **options)
        except PinLaterError as error:
            failed.append(error)
            raise

    monkeypatch.setattr(MysqlShard, "ping", counted_ping)

    async def scenario():
        fleet = make_fleet([endpoint_of(source), endpoint_of(shared_service())], FakeClock(), prefix=fresh_prefix())
        await fleet.create_queue(QUEUE)
        await asyncio.gather(*(fleet.enqueue_jobs(QUEUE, [new_job()]) for _ in range(9)))
        monkeypatch.setattr(group_commit, "ATTEMPT_SECONDS", 1.0)
        monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.0)
        monkeypatch.setattr(database, "CALL_SECONDS", 1.0)
        await run(source, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
        while not fleet.unhealthy_shards:
            await asyncio.gather(*(fleet.enqueue_jobs(QUEUE, [new_job()]) for _ in range(9)), return_exceptions=True)
        await until(lambda: len(failed) > 3)
        assert fleet.unhealthy_shards == 1
        for _ in range(9):
            [name] = await fleet.enqueue_jobs(QUEUE, [new_job()])
            assert JobDescriptor.parse(name).shard == "2"
        await run(source, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        await until(lambda: not fleet.unhealthy_shards)
        await fleet.close()

    asyncio.run(scenario())
