"""A database of an earlier version is brought to the present one, whoever opens it, and as often as it takes."""

import asyncio

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import SCHEMA_VERSION, Database
from pinlater.server.backends.mysql.errors import ConnectFailed
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.mysql.session import TABLE_LOCK_SECONDS
from pinlater.server.backends.records import JobFilter
from tests.support.bench import QUEUE, START_MS, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet


class Old:
    """A database with the tables of version 1, and a queue in it."""

    def __init__(self):
        self._endpoint = endpoint_of(shared_service())
        self.queries = Queries(fresh_prefix() + "schema")
        self.run(b"CREATE DATABASE %b" % self.name)
        self.run(*self.queries.schema(1), self.queries.bind("create_queue", id=1, name="emails", now=1))

    @property
    def name(self):
        return self.queries.database.encode()

    def run(self, *statements):
        async def work():
            connection = await MysqlConnection.open(self._endpoint)
            results = await connection.run(*statements)
            connection.close()
            return results

        return asyncio.run(work())

    def open(self, servers=1):
        async def work():
            pools = [MysqlPool(self._endpoint, 1) for _ in range(servers)]
            try:
                await asyncio.gather(*(self._open_one(pool) for pool in pools))
            finally:
                for pool in pools:
                    pool.close()

        asyncio.run(work())

    async def _open_one(self, pool):
        async with Database("1", pool, self.queries, lambda: 1).connection():
            pass

    def version(self):
        return self.run(self.queries.bind("setting", name="schema_version"))[0].rows[0][0]

    def tables(self):
        query = b"SELECT table_name FROM information_schema.tables WHERE table_schema = '%b'" % self.name
        return {row[0] for row in self.run(query)[0].rows}


@pytest.fixture
def old():
    database = Old()
    yield database
    database.run(b"DROP DATABASE %b" % database.name)


def test_a_database_of_version_1_is_brought_to_the_present_one(old, caplog):
    caplog.set_level("INFO")
    assert (old.version(), "reports" in old.tables()) == (1, False)
    old.open(servers=4)
    assert (old.version(), "reports" in old.tables()) == (SCHEMA_VERSION, True)
    assert [name for _, name in old.run(old.queries.bind("queues"))[0].rows] == ["emails"]
    assert f"database {old.queries.database} is upgraded from version 1 to {SCHEMA_VERSION}" in caplog.text
    caplog.clear()
    old.open()
    assert (old.version(), caplog.text) == (SCHEMA_VERSION, "")


@pytest.mark.parametrize("step", range(2, SCHEMA_VERSION + 1))
def test_a_step_that_was_left_half_done_is_completed(old, step):
    for version in range(2, step):
        old.run(*old.queries.schema(version))
    old.run(old.queries.schema(step)[0])
    old.open()
    assert old.version() == SCHEMA_VERSION


def test_a_database_is_upgraded_that_takes_the_place_of_the_present_one(old):
    """As after a fail-over to a replica that had not upgraded it yet, or when an old backup is restored."""

    async def scenario():
        pool = MysqlPool(endpoint_of(shared_service()), 1)
        database, settings = Database("1", pool, old.queries, lambda: 1), old.queries.bind("queue_settings")
        async with database.connection() as connection:
            await connection.run(
                b"ALTER TABLE %b.queues DROP COLUMN shards, DROP COLUMN shards_by_load" % old.name,
                b"UPDATE %b.settings SET value = 11 WHERE name = 'schema_version'" % old.name,
            )
        with pytest.raises(ConnectFailed):
            async with database.connection() as connection:
                await connection.run(settings)
        async with database.connection() as connection:
            [found] = await connection.run(settings)
        assert [name for name, *_ in found.rows] == ["emails"]
        pool.close()

    asyncio.run(scenario())
    assert old.version() == SCHEMA_VERSION


def test_while_a_backup_reads_a_table_the_upgrade_leaves_it_to_the_others(old, monkeypatch, packets):
    async def scenario():
        place = endpoint_of(shared_service())
        pool, backup = MysqlPool(place, 1), await MysqlConnection.open(place)
        database = Database("1", pool, old.queries, lambda: 1)

        async def is_refused():
            packets.clear()
            with pytest.raises(ConnectFailed, match="such as a backup by mysqldump"):
                async with database.connection():
                    pass
            return len(packets)

        await backup.run(b"START TRANSACTION", b"SELECT COUNT(*) FROM %b.jobs" % old.name)
        tried = await is_refused()
        assert await is_refused() < tried, "nobody has to wait for it again so soon"
        await backup.run(b"ROLLBACK")
        await is_refused()
        monkeypatch.setattr(database, "_upgrade_at", 0.0)
        async with database.connection() as connection:
            [(rows, _, _)] = await connection.run(b"SELECT @@SESSION.lock_wait_timeout")
            assert rows[0][0] == TABLE_LOCK_SECONDS, "later statements wait as before"
        backup.close()
        pool.close()

    asyncio.run(scenario())
    assert old.version() == SCHEMA_VERSION


def test_a_database_of_a_newer_version_is_refused(old):
    old.run(b"UPDATE %b.settings SET value = %d WHERE name = 'schema_version'" % (old.name, SCHEMA_VERSION + 1))
    with pytest.raises(ConnectFailed, match="install a newer version"):
        old.open()


def test_a_shard_of_a_newer_version_is_left_and_the_others_work():
    """As on a server of the version before, when it starts while a fleet is upgraded."""

    async def scenario():
        place, prefix = endpoint_of(shared_service()), fresh_prefix()
        connection = await MysqlConnection.open(place)
        newer = Queries(f"{prefix}1")
        await connection.run(b"CREATE DATABASE %b" % newer.database.encode(), *newer.schema(1))
        await connection.run(
            newer.bind("create_queue", id=1, name=QUEUE, now=1),
            b"INSERT INTO %b.settings VALUES ('schema_version', 99)"
            b" ON DUPLICATE KEY UPDATE value = 99" % newer.database.encode(),
        )
        connection.close()
        fleet = make_fleet([place, place], lambda: START_MS, prefix=prefix)
        await fleet.create_queue(QUEUE)
        names = [name for _ in range(20) for name in await fleet.enqueue_jobs(QUEUE, [new_job()])]
        assert {JobDescriptor.parse(name).shard for name in names} == {"2"}
        assert await fleet.count_jobs(QUEUE, JobFilter(PENDING)) == 20
        assert await fleet.queue_names() == {QUEUE}
        assert "install a newer version" in (await fleet.ping_shards())["1"]
        await fleet.close()

    asyncio.run(scenario())


def test_a_shard_whose_user_lacks_privileges_is_left_and_the_others_work():
    """As one that was added before anybody has granted them."""

    async def scenario():
        place, prefix = endpoint_of(shared_service()), fresh_prefix()
        administrator = await MysqlConnection.open(place)
        await administrator.run(b"CREATE USER IF NOT EXISTS narrow@'%' IDENTIFIED BY 'x'")
        grant = f"GRANT ALL ON `{prefix}%d`.* TO narrow@'%%'".encode()
        await administrator.run(grant % 1)
        fleet = make_fleet([place._replace(user="narrow", password="x")] * 2, lambda: START_MS, prefix=prefix)
        await fleet.create_queue(QUEUE)
        names = [name for _ in range(30) for name in await fleet.enqueue_jobs(QUEUE, [new_job()])]
        assert {JobDescriptor.parse(name).shard for name in names} == {"1"}
        assert (await fleet.queue_settings()).keys() == {QUEUE}
        assert "the user needs all privileges on the database" in (await fleet.ping_shards())["2"]
        await administrator.run(grant % 2)
        administrator.close()
        async with asyncio.timeout(30):
            while {JobDescriptor.parse(name).shard for name in names} == {"1"}:
                names = await fleet.enqueue_jobs(QUEUE, [new_job()])
                await asyncio.sleep(0.01)
        await fleet.close()

    asyncio.run(scenario())


def test_tables_that_are_gone_are_made_again_while_the_other_shards_work():
    """As after a fail-over to a replica that had not heard of them yet."""

    async def scenario():
        place, prefix = endpoint_of(shared_service()), fresh_prefix()
        fleet = make_fleet([place] * 2, lambda: START_MS, prefix=prefix)
        await fleet.create_queue(QUEUE)
        while (await fleet.enqueue_jobs(QUEUE, [new_job()]))[0].split(":")[1] != "s2":
            pass
        administrator = await MysqlConnection.open(place)
        await administrator.run(f"DROP DATABASE {prefix}2".encode())
        administrator.close()
        names = [name for _ in range(30) for name in await fleet.enqueue_jobs(QUEUE, [new_job()])]
        async with asyncio.timeout(30):
            while {JobDescriptor.parse(name).shard for name in names} == {"1"}:
                names = await fleet.enqueue_jobs(QUEUE, [new_job()])
                await asyncio.sleep(0.01)
        assert (await fleet.queue_settings()).keys() == {QUEUE}
        await fleet.close()

    asyncio.run(scenario())
