"""Connections of the MySQL store: none says what another query asked for, whatever happened to that one."""

import asyncio
import random
import socket
import time

import asyncmy
import pytest

from pinlater.errors import NoHealthyShards, ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.mysql import database as database_module
from pinlater.server.backends.mysql.connection import CONNECT_SECONDS, MysqlConnection, MysqlEndpoint
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.errors import ConnectFailed, StatementRejected, TransactionConflict
from pinlater.server.backends.mysql.orphaned_claims import MysqlOrphanedClaims
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, START_MS, ack_of, new_job
from tests.support.lossy_proxy import LossyProxy
from tests.support.mariadb_service import MariadbService, shared_service, skip_if_missing
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def endpoint():
    return endpoint_of(shared_service())


async def ask(pool, number):
    """Ask for rows that carry a number of our own; a slow query every third time."""
    pause = b"SLEEP(0.005)" if number % 3 == 0 else b"0"
    async with pool.connection() as connection:
        results = await connection.run(
            b"SELECT %d, %b" % (number, pause), b"SELECT %d FROM (SELECT 1 UNION SELECT 2) AS two" % number
        )
    return [row[0] for result in results for row in result.rows]


def test_cancelled_queries_answer_nobody_else(endpoint):
    """Cancels at random moments, in all states of a query, and compares every answer with its question."""
    chance = random.Random(7)

    async def client(pool, numbers, tally):
        for number in numbers:
            task = asyncio.create_task(ask(pool, number))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice((0, 0, 0.0003, 0.001, 0.006)))
                task.cancel()
            try:
                assert await task == [number] * 3
            except asyncio.CancelledError:
                tally["cancelled"] += 1
            else:
                tally["answered"] += 1

    async def scenario():
        pool = MysqlPool(endpoint, 4)
        tally = {"cancelled": 0, "answered": 0}
        await asyncio.gather(*(client(pool, range(start, 10**6, 10_000), tally) for start in range(8)))
        assert await ask(pool, 1) == [1, 1, 1]
        pool.close()
        return tally

    tally = asyncio.run(scenario())
    assert tally["cancelled"] > 100
    assert tally["answered"] > 100


def test_a_log_in_whose_package_is_missing_says_which(endpoint, monkeypatch):
    async def connect(**_):
        raise RuntimeError("'pynacl' package is required for ed25519_password auth method")

    monkeypatch.setattr(asyncmy, "connect", connect)
    with pytest.raises(ConnectFailed, match="'pynacl' package is required"):
        asyncio.run(MysqlConnection.open(endpoint))


def test_cancelled_calls_of_the_store_leave_it_in_order(endpoint):
    chance = random.Random(11)

    async def scenario():
        fleet = make_fleet([endpoint], lambda: START_MS, prefix=fresh_prefix())
        await fleet.create_queue(QUEUE)
        seen = set()
        for number in range(150):
            calls = [
                asyncio.ensure_future(fleet.enqueue_jobs(QUEUE, [new_job(b"%d" % number)])),
                asyncio.ensure_future(fleet.dequeue_jobs(QUEUE, 2, Claim(f"h:1:1:w:{number}", 1000))),
                asyncio.ensure_future(fleet.peek_jobs(QUEUE, 3)),
                asyncio.ensure_future(fleet.queue_names()),
            ]
            await asyncio.sleep(chance.choice((0, 0.0005, 0.002)))
            for call in calls:
                if chance.random() < 0.4:
                    call.cancel()
            names, dequeued, _, queues = await asyncio.gather(*calls, return_exceptions=True)
            if not isinstance(dequeued, BaseException):
                handed_out = {job.descriptor for job in dequeued.jobs}
                assert not handed_out & seen, "to one caller only"
                seen |= handed_out
            assert isinstance(names, asyncio.CancelledError) or len(names) == 1
            assert isinstance(queues, asyncio.CancelledError) or queues == {QUEUE}
        async with asyncio.timeout(30):  # what was claimed for those who are gone goes back
            while await fleet.count_jobs(QUEUE, JobFilter(IN_PROGRESS)) != len(seen):
                await asyncio.sleep(0.01)
        await fleet.close()
        return seen

    assert asyncio.run(scenario())


def test_the_databases_clock_is_read_without_summer_time(endpoint):
    """Twice in the night in which it ends, half past two is ambiguous."""

    async def scenario():
        connection = await MysqlConnection.open(endpoint)
        [(rows, _, _)] = await connection.run(b"SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()), @@time_zone")
        connection.close()
        return list(rows)

    assert asyncio.run(scenario()) == [(0, "+00:00")]


def test_what_the_database_has_as_defaults_for_sessions_does_not_matter(tmp_path):
    """A changed default may leave an answered statement uncommitted, or cut off the rows that a statement returns."""

    async def scenario(endpoint):
        admin = await MysqlConnection.open(endpoint)
        await admin.run(
            b"SET GLOBAL completion_type = CHAIN, GLOBAL sql_select_limit = 1, GLOBAL autocommit = 0",
            b"SET GLOBAL TRANSACTION READ ONLY",
            b"CREATE DATABASE d",
            b"CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE = InnoDB",
        )
        connection = await MysqlConnection.open(endpoint)
        await connection.run(b"START TRANSACTION", b"INSERT INTO d.t VALUES (1)", b"COMMIT")
        await connection.run(b"INSERT INTO d.t VALUES (2)")
        [(rows, _, _)] = await connection.run(b"SELECT id FROM d.t")
        connection.close()
        [(committed, _, _)] = await admin.run(b"SELECT id FROM d.t")
        admin.close()
        return list(rows), list(committed)

    skip_if_missing()
    with MariadbService(tmp_path) as service:
        assert asyncio.run(scenario(endpoint_of(service))) == ([(1,), (2,)], [(1,), (2,)])


def test_a_connection_that_was_cut_off_is_not_used_again(endpoint):
    async def scenario():
        pool = MysqlPool(endpoint, 1)
        with pytest.raises(TimeoutError):
            async with pool.connection() as connection, asyncio.timeout(0.05):
                await connection.run(b"SELECT SLEEP(2)")
        assert not connection.is_open
        async with pool.connection() as other:
            assert other is not connection
        pool.close()

    asyncio.run(scenario())


def test_an_error_of_a_statement_leaves_the_connection_usable(endpoint):
    async def scenario():
        connection = await MysqlConnection.open(endpoint)
        with pytest.raises(StatementRejected, match="nothing was changed"):
            await connection.run(b"SELECT 1", b"SELECT 1 is nonsense", b"SELECT 2")
        [(rows, _, _)] = await connection.run(b"SELECT 3")
        assert list(rows) == [(3,)]
        connection.close()

    asyncio.run(scenario())


def test_a_statement_that_no_packet_holds_is_a_clear_error(endpoint):
    async def scenario():
        connection = await MysqlConnection.open(endpoint)
        with pytest.raises(UnknownError, match="max_allowed_packet"):
            await connection.run(b"SELECT '" + b"x" * connection.max_packet_bytes + b"'")
        halves = [b"SELECT LENGTH('" + b"x" * (connection.max_packet_bytes // 2) + b"')"] * 5
        assert len(await connection.run(*halves)) == 5, "several packets"
        connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"'" * 1_000_000, bytes(range(256)) * 4000, b"\\" * 500_000, b"\0" * 500_000])
def test_bodies_of_awkward_bytes(endpoint, body):
    async def scenario():
        fleet = make_fleet([endpoint], lambda: START_MS, prefix=fresh_prefix())
        await fleet.create_queue(QUEUE)
        await fleet.enqueue_jobs(QUEUE, [new_job(body), new_job(b"next")])
        jobs = (await fleet.dequeue_jobs(QUEUE, 5, Claim("h:1:1:w:1", 1000))).jobs
        await fleet.close()
        return [job.body for job in jobs]

    assert asyncio.run(scenario()) == [body, b"next"]


@pytest.mark.parametrize("change", [{"port": free_port()}, {"password": "wrong"}], ids=["port", "password"])
def test_nobody_there(endpoint, change):
    async def scenario():
        pool = MysqlPool(endpoint._replace(**change), 1)
        async with pool.connection():
            pass

    with pytest.raises(ConnectFailed, match=r"pinlater@127\.0\.0\.1"):
        asyncio.run(scenario())


def test_a_server_that_says_nothing(endpoint):
    """It takes the connection, as a stopped one does, and never greets us."""

    async def scenario(port):
        began = time.monotonic()
        with pytest.raises(ConnectFailed, match="did not answer within"):
            await MysqlConnection.open(MysqlEndpoint("127.0.0.1", port, "pin", ""))
        return time.monotonic() - began

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asyncio.run(scenario(silent.getsockname()[1])) < CONNECT_SECONDS + 5


def test_two_transactions_in_each_others_way(endpoint):
    """A deadlock is a conflict, and the connection is usable after it."""

    async def scenario():
        one, two = await MysqlConnection.open(endpoint), await MysqlConnection.open(endpoint)
        database = (fresh_prefix() + "deadlock").encode()
        await one.run(
            b"CREATE DATABASE %b" % database,
            b"CREATE TABLE %b.t (id INT PRIMARY KEY, n INT)" % database,
            b"INSERT INTO %b.t VALUES (1, 0), (2, 0)" % database,
        )
        update = b"UPDATE " + database + b".t SET n = n + 1 WHERE id = %d"
        await asyncio.gather(one.run(b"START TRANSACTION", update % 1), two.run(b"START TRANSACTION", update % 2))
        results = await asyncio.gather(one.run(update % 2), two.run(update % 1), return_exceptions=True)
        assert [type(result) for result in results].count(TransactionConflict) == 1
        await asyncio.gather(one.run(b"ROLLBACK"), two.run(b"ROLLBACK"))
        await one.run(b"DROP DATABASE %b" % database)
        one.close()
        two.close()

    asyncio.run(scenario())


def test_the_first_conflict_of_a_change_is_tried_again_however_long_it_took(endpoint, monkeypatch):
    monkeypatch.setattr(database_module, "CONFLICT_SECONDS", 0.0)
    tries = []

    async def change(transaction):
        tries.append(await transaction.rows("setting", name="schema_version"))
        if len(tries) in conflicts:
            raise TransactionConflict("deadlock")
        return "done"

    async def scenario():
        nonlocal conflicts
        pool = MysqlPool(endpoint, 1)
        database = Database("1", pool, Queries(f"{fresh_prefix()}1"))
        try:
            conflicts = {1}
            assert await database.change(change, is_repeatable=False) == "done"
            tries.clear()
            conflicts = {1, 2}
            with pytest.raises(UnknownError, match="other transactions kept this one from committing"):
                await database.change(change, is_repeatable=False)
            assert len(tries) == 2
        finally:
            pool.close()

    conflicts = set()
    asyncio.run(scenario())


@pytest.fixture
def proxy(endpoint):
    """Stands before the server, and loses answers."""
    with LossyProxy(endpoint.port) as proxy:
        yield proxy


@pytest.mark.parametrize("claim", [None, "host:1:1:worker:1"])
def test_a_failure_without_a_claim_is_not_sent_twice(endpoint, proxy, claim):
    """The second one would end the attempt of the next holder."""

    async def scenario():
        fleet = make_fleet(
            [endpoint._replace(host="127.0.0.1", port=proxy.port)], lambda: START_MS, prefix=fresh_prefix()
        )
        try:
            await fleet.create_queue(QUEUE)
            (name,) = await fleet.enqueue_jobs(QUEUE, [new_job(attempts=5)])
            assert (await fleet.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:1", 30_000))).jobs
            proxy.lose(b"COMMIT")
            acking = fleet.ack_dequeued_jobs(QUEUE, [], [ack_of(name, claim=claim)])
            if claim is None:
                with pytest.raises(ShardConnectionFailed):
                    await acking
            else:
                await acking
            assert proxy.lost == 1
            (record,) = await fleet.lookup_jobs([JobDescriptor.parse(name)])
            return record.state, record.attempts_remaining
        finally:
            await fleet.close()

    assert asyncio.run(scenario()) == (PENDING, 4)


def test_a_queue_is_locked_although_the_answer_was_lost(endpoint, proxy):
    async def scenario():
        proxied = endpoint._replace(host="127.0.0.1", port=proxy.port)
        fleet = make_fleet([proxied], lambda: START_MS, prefix=fresh_prefix())
        await fleet.create_queue(QUEUE)
        shard = fleet.group.registry.named("1").shard
        proxy.lose(b"AND value = ")
        token = await shard.lock_queue(QUEUE, 60_000)
        assert proxy.lost == 1
        assert token is not None, "nobody could claim until the lock ended by itself"
        assert await shard.lock_queue(QUEUE, 60_000) is None
        await shard.unlock_queue(QUEUE, token)
        assert await shard.lock_queue(QUEUE, 60_000) is not None
        await fleet.close()

    asyncio.run(scenario())


def test_a_claim_of_which_nobody_knows_whether_it_was_committed_is_given_back(endpoint, proxy):
    commits = []

    async def scenario():
        proxied = endpoint._replace(host="127.0.0.1", port=proxy.port)
        fleet = make_fleet([proxied], lambda: START_MS, prefix=fresh_prefix(), on_commit=commits.append)
        try:
            await fleet.create_queue(QUEUE)
            (name,) = await fleet.enqueue_jobs(QUEUE, [new_job(attempts=1)])
            proxy.lose(b"claim_lease")
            with pytest.raises(NoHealthyShards):
                await fleet.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:1", 30_000))
            assert proxy.lost == 1
            async with asyncio.timeout(60):
                while not (found := await fleet.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:2", 30_000))).jobs:
                    await asyncio.sleep(0.01)
            return name, found.jobs
        finally:
            await fleet.close()

    name, [job] = asyncio.run(scenario())
    assert (job.descriptor, job.attempts_remaining) == (name, 1)
    assert sum(stats.claims_undone for stats in commits) == 1
    assert sum(stats.is_failed for stats in commits) == 1


def test_a_claim_that_is_given_back_takes_nothing_that_the_same_dequeue_hands_out(endpoint, proxy, monkeypatch):
    """The claim of the first priority is lost on its way; the same shard has another one."""
    release = MysqlOrphanedClaims._release

    async def scenario():
        is_taken = asyncio.Event()

        async def release_late(*arguments):
            await is_taken.wait()
            await release(*arguments)

        monkeypatch.setattr(MysqlOrphanedClaims, "_release", release_late)
        proxied = endpoint._replace(host="127.0.0.1", port=proxy.port)
        fleet = make_fleet([proxied, endpoint], lambda: START_MS, prefix=fresh_prefix())
        try:
            await fleet.create_queue(QUEUE)
            shards = set()
            while shards != {"1", "2"}:  # each has both
                names = await fleet.enqueue_jobs(QUEUE, [new_job(priority=1), new_job(priority=2)])
                shards.add(JobDescriptor.parse(names[0]).shard)
            stored = await fleet.count_jobs(QUEUE, JobFilter(PENDING))
            proxy.lose(b"claim_lease", is_done=False)
            taken = await fleet.dequeue_jobs(QUEUE, 100, Claim("host:1:1:worker:1", 30_000))
            assert (proxy.lost, len(taken.jobs) > 0) == (1, True)
            is_taken.set()
            held = {job.descriptor for job in taken.jobs}
            for number in range(2, 60):
                more = await fleet.dequeue_jobs(QUEUE, 100, Claim(f"host:1:1:worker:{number}", 30_000))
                assert not held & {job.descriptor for job in more.jobs}
                held |= {job.descriptor for job in more.jobs}
                if len(held) == stored:
                    break
                await asyncio.sleep(0.05)
            return len(held), stored
        finally:
            await fleet.close()

    held, stored = asyncio.run(scenario())
    assert held == stored


def test_warnings_of_the_database_cost_no_statement_and_no_line_in_the_log(caplog):
    async def scenario():
        connection = await MysqlConnection.open(endpoint_of(shared_service()))
        asked = b"SHOW SESSION STATUS LIKE 'Questions'"
        counts = []
        for statement in (b"SELECT 1", b"SELECT CAST('no number' AS SIGNED)"):
            [[before]] = [answer.rows for answer in await connection.run(asked)]
            await connection.run(statement)
            [[after]] = [answer.rows for answer in await connection.run(asked)]
            counts.append(int(after[1]) - int(before[1]))
        connection.close()
        return counts

    quiet, warned = asyncio.run(scenario())
    assert warned == quiet
    assert not caplog.records
