"""Names of queues, which each server keeps and reads again only when another one has created or deleted some."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.server.backends.mysql import queues
from pinlater.server.backends.mysql.connection import MysqlConnection
from tests.support.bench import new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, with_servers

MANY = [f"queue{number}" for number in range(50)]


@pytest.fixture
def full_reads(monkeypatch):
    """Count the reads of all names."""
    read, counted = queues.MysqlQueues._read, []

    async def counting(self):
        counted.append(self)
        await read(self)

    monkeypatch.setattr(queues.MysqlQueues, "_read", counting)
    monkeypatch.setattr(queues, "CACHE_SECONDS", 0.0)  # each call looks whether there are other queues
    return counted


def test_names_are_read_again_only_when_there_are_other_queues(full_reads):
    async def scenario(ours, theirs):
        for name in MANY:
            await ours.enqueue_jobs(name, [new_job()])
        known = len(full_reads)
        for name in MANY:
            assert len(await ours.enqueue_jobs(name, [new_job()])) == 1
        with pytest.raises(QueueNotFound):
            await ours.enqueue_jobs("absent", [new_job()])
        assert len(full_reads) == known
        await theirs.create_queue("another")
        await ours.enqueue_jobs("another", [new_job()])
        assert len(full_reads) > known

    with_servers(scenario, 2, queues=MANY)


@pytest.mark.parametrize("others", [[], ["new"], ["new", "newer"]])
def test_a_queue_that_another_server_deletes_is_gone_however_many_it_creates(full_reads, others):
    async def scenario(ours, theirs):
        await ours.enqueue_jobs("old", [new_job()])
        await theirs.delete_queue("old")
        for name in others:
            await theirs.create_queue(name)
        with pytest.raises(QueueNotFound):
            await ours.enqueue_jobs("old", [new_job()])
        assert await ours.queue_names() == {"kept", *others}
        await theirs.create_queue("old")
        await ours.enqueue_jobs("old", [new_job()])
        assert full_reads

    with_servers(scenario, 2, queues=("old", "kept"))


def test_a_queue_lost_in_a_fail_over_is_not_taken_for_one_that_is_created_after_it():
    prefix = fresh_prefix()

    async def lose_queues():
        connection = await MysqlConnection.open(endpoint_of(shared_service()))
        await connection.run(f"DELETE FROM {prefix}1.queues".encode())
        await connection.run(f"ALTER TABLE {prefix}1.queues AUTO_INCREMENT = 1".encode())
        connection.close()

    async def scenario(ours, theirs):
        await ours.enqueue_jobs("lost", [new_job()])
        await lose_queues()
        await theirs.create_queue("new")
        with pytest.raises(QueueNotFound):
            await ours.enqueue_jobs("lost", [new_job()])

    with_servers(scenario, 2, queues=("lost",), prefix=prefix)
