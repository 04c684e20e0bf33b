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


async def replicate(source, replica):
    [position] = await run(source, "SELECT @@gtid_binlog_pos")
    await run(
        replica,
        "RESET MASTER",
        f"SET GLOBAL gtid_slave_pos = '{position.rows[0][0]}'",
        f"CHANGE MASTER TO master_host = '{source.host}', master_port = {source.port}, master_user = '{source.user}',"
        f" master_password = '{source.password}', master_use_gtid = slave_pos",
        "START SLAVE",
        "SET GLOBAL read_only = ON",
    )


async def fall_behind(source, replica):
    """Let the replica receive all there is, and nothing after that."""
    [position] = await run(source, "SELECT @@gtid_binlog_pos")
    await run(replica, f"SELECT MASTER_GTID_WAIT('{position.rows[0][0]}')", "STOP SLAVE")


async def fail_over(source, replica, servers):
    source.kill()
    await run(replica, "RESET SLAVE ALL", "SET GLOBAL read_only = OFF")
    for server in servers:
        server.update([ShardSpec("1", endpoint_of(replica))])


async def ack(server, names, held):
    acks = [StoredAck(JobDescriptor.parse(name), held.descriptor, "", 0, False) for name in names]
    return (await server.ack_dequeued_jobs(QUEUE, acks, [])).changed


def test_a_fail_over_to_a_replica_that_was_behind_loses_the_latest_changes_and_mixes_up_none(start):
    source, replica = start(), start()

    async def scenario():
        prefix, clock = fresh_prefix(), FakeClock()
        await replicate(source, replica)
        first, second = servers = [make_fleet([endpoint_of(source)], clock, prefix=prefix) for _ in range(2)]
        await first.create_queue(QUEUE)
        kept = await first.enqueue_jobs(QUEUE, [new_job()] * 5)
        early = claim()
        await first.dequeue_jobs(QUEUE, 2, early)
        await fall_behind(source, replica)
        once, late = IdempotencyKey(b"%016d" % 1, 600_000), claim()
        lost = await second.enqueue_jobs(QUEUE, [new_job()] * 5, once=once)
        await second.create_queue("lost")
        assert await ack(first, kept[:1], early) == 1
        assert [job.descriptor for job in (await first.dequeue_jobs(QUEUE, 2, late)).jobs] == kept[2:4]
        await fail_over(source, replica, servers)

        assert await first.lookup_jobs([JobDescriptor.parse(name) for name in lost]) == [None] * 5
        with pytest.raises(QueueNotFound):
            await second.enqueue_jobs("lost", [new_job()])
        again = await first.enqueue_jobs(QUEUE, [new_job()] * 5, once=once._replace(is_repeat=True))
        new = await second.enqueue_jobs(QUEUE, [new_job()] * 5)
        assert len({*kept, *lost, *again, *new}) == 20, "each descriptor is of one job"
        assert await ack(second, [*kept[2:4], *lost], late) == 0, "their claims are lost"
        assert await ack(second, kept[:2], early) == 2, "the loss of an ack was not the loss of its claim"
        assert await first.count_jobs(QUEUE, JobFilter(PENDING)) == 13
        held = claim()
        names = [job.descriptor for job in (await first.dequeue_jobs(QUEUE, 99, held)).jobs]
        assert sorted(names) == sorted([*kept[2:], *again, *new])
        assert await ack(second, names, held) == 13
        assert await first.count_jobs(QUEUE, JobFilter(SUCCEEDED)) == 15
        await asyncio.gather(*(server.close() for server in servers))

    asyncio.run(scenario())
