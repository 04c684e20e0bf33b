"""Messages on MySQL: servers that send and sleep at once, and what is left of them."""

import asyncio
import random

import pytest

from pinlater.errors import EnqueueRejected
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, MessageKind, Parent
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql import messages
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import JobFilter
from tests.integration.mysql_messages import NAME, OTHER, Tables, read, running, sleep, take
from tests.support.bench import FAR_MS, QUEUE, START_MS, ack_of, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, with_servers


def send(server, name, message_id="1"):
    return server.send_message(JobDescriptor.parse(name), Message("go", message_id, b"hello"))


def with_tables(scenario, count=1, *, queues=(QUEUE,), endpoint=None):
    """Run ``scenario(tables, *servers)`` with servers on one shard; their clock stands still."""
    prefix, place = fresh_prefix(), endpoint or endpoint_of(shared_service())

    async def run(*servers):
        connection = await MysqlConnection.open(place)
        try:
            return await scenario(Tables(connection, prefix), *servers)
        finally:
            connection.close()

    return with_servers(run, count, queues=queues, endpoint=place, prefix=prefix)


# Races of one message and one sleep


def test_what_falls_asleep_waits_for_a_message_that_is_on_its_way():
    async def scenario(tables, server):
        name, held = await running(server)
        job = name.rpartition(":")[2]
        await tables.run(
            "START TRANSACTION",
            f"SELECT id FROM {{db}}.jobs WHERE id = {job} FOR UPDATE",
            f"INSERT INTO {{db}}.messages VALUES ({job}, 'go', 1, 'a', 0, 0, '')",
        )
        sleeping = asyncio.ensure_future(sleep(server, name, held, ("go", 1)))
        await tables.until_locked_out()
        await tables.run("COMMIT")
        assert (await sleeping).due_ms == START_MS
        assert (await take(server))[0] == [name]

    with_tables(scenario)


def test_a_message_waits_for_a_job_that_is_falling_asleep():
    async def scenario(tables, server):
        name, _ = await running(server)
        job = name.rpartition(":")[2]
        await tables.run(
            "START TRANSACTION",
            f"UPDATE {{db}}.jobs SET state = 0, claim = NULL, moment = NULL, run_after = {FAR_MS},"
            f""" waits_for = '[["go",1]]' WHERE id = {job}""",
        )
        sending = asyncio.ensure_future(send(server, name))
        await tables.until_locked_out()
        await tables.run("COMMIT")
        assert await sending
        assert (await take(server))[0] == [name]

    with_tables(scenario)


@pytest.mark.parametrize("ends", [True, False])
def test_an_enqueue_of_children_waits_for_its_parent_last_and_is_refused_if_that_has_ended(ends):
    async def scenario(tables, server):
        name, _ = await running(server)
        job = name.rpartition(":")[2]
        await tables.run(
            "START TRANSACTION", f"UPDATE {{db}}.jobs SET state = {SUCCEEDED if ends else IN_PROGRESS} WHERE id = {job}"
        )
        jobs = [new_job(parent=Parent(name, NAME, position)) for position in range(3)]
        storing = asyncio.ensure_future(server.enqueue_jobs(OTHER, jobs))
        await tables.until_locked_out()
        assert not storing.done()
        waiting = "trx_state = 'LOCK WAIT' AND trx_rows_modified >= 3"
        inserted = f"SELECT COUNT(*) FROM information_schema.innodb_trx WHERE {waiting}"
        assert (await tables.run(inserted))[0][0] == (1,)  # the jobs are there: only the parent was left
        await tables.run("COMMIT")
        if ends:
            with pytest.raises(EnqueueRejected, match="parent"):
                await storing
        else:
            assert len(await storing) == 3
        assert await tables.left() == (0, 0 if ends else 3, 0)
        assert len((await server.scan_jobs(OTHER, JobFilter(PENDING), 10, None)).jobs) == (0 if ends else 3)

    with_tables(scenario, queues=(QUEUE, OTHER))


def test_no_wake_up_is_lost_between_servers_that_send_and_sleep_at_once():
    async def scenario(first, second):
        names = await first.enqueue_jobs(QUEUE, [new_job()] * 200)
        taken, held = await take(first, limit=200)
        assert sorted(taken) == sorted(names)

        async def race(name):
            calls = [sleep(first, name, held, ("go", 1)), send(second, name)]
            random.shuffle(calls)
            await asyncio.gather(*calls)

        await asyncio.gather(*map(race, names))
        woken = []
        while some := (await take(second, limit=200))[0]:
            woken += some
        assert sorted(woken) == sorted(names)

    with_servers(scenario, 2)


def test_a_message_that_two_servers_send_at_once_is_there_once():
    async def scenario(first, second):
        [name] = await first.enqueue_jobs(QUEUE, [new_job()])
        sent = await asyncio.gather(*(send(server, name, str(n)) for n in range(40) for server in (first, second)))
        assert all(sent)
        found = await read(first, name, "go")
        assert [one.number for one in found] == [*range(1, 41)]
        assert sorted(int(one.id) for one in found) == [*range(40)]

    with_servers(scenario, 2)


# What is left


DELETIONS = {
    "collected": lambda server: server.collect_finished(-1, -1, 100),
    "by hand": lambda server: server.delete_jobs(QUEUE, JobFilter(SUCCEEDED), 100),
}


@pytest.mark.parametrize("way", DELETIONS.values(), ids=DELETIONS)
@pytest.mark.parametrize("at_once", [1000, 10])
def test_messages_are_deleted_with_their_job_or_soon(monkeypatch, way, at_once):
    monkeypatch.setattr(messages, "DELETED_AT_ONCE", at_once)

    async def scenario(tables, server):
        name, held = await running(server)
        await server.enqueue_jobs(QUEUE, [new_job(parent=Parent(name, NAME, 0), run_after_ms=FAR_MS)])
        await asyncio.gather(*(send(server, name, str(number)) for number in range(35)))
        await server.ack_dequeued_jobs(QUEUE, [ack_of(name, claim=held)], [])
        assert await tables.left() == (35, 1, 0)
        await way(server)
        assert await tables.left() == ((0, 1, 0) if at_once == 1000 else (35, 1, 1))
        assert await read(server, name, "go") == []
        await server.collect_finished(10**9, 10**9, 100)
        assert await tables.left() == (0, 1, 0)
        await server.delete_jobs(QUEUE, JobFilter(PENDING), 10)
        assert await tables.left() == (0, 0, 0)

    with_tables(scenario)


def test_a_deleted_queue_leaves_no_messages_and_tells_the_parents_elsewhere():
    async def scenario(tables, server):
        parent, _ = await running(server)
        children = [new_job(parent=Parent(parent, NAME, number)) for number in range(3)]
        [_, busy, _] = await server.enqueue_jobs(OTHER, children)
        own = new_job(parent=Parent(busy, NAME, 0))  # is deleted with its parent
        await server.enqueue_jobs(OTHER, [own])
        await send(server, busy)
        await server.delete_queue(OTHER)
        await server.collect_finished(10**9, 10**9, 100)
        assert [(one.id, one.kind) for one in await read(server, parent)] == [
            (str(number), MessageKind.DELETED) for number in range(3)
        ]
        assert await tables.left() == (3, 0, 0)

    with_tables(scenario, queues=(QUEUE, OTHER))


async def delete_with_queue(server):
    await server.delete_queue(OTHER)
    await server.collect_finished(10**9, 10**9, 100)


DELETIONS_OF_FAILED = {
    "collected": lambda server: server.collect_finished(-1, -1, 100),
    "by hand": lambda server: server.delete_jobs(OTHER, JobFilter(FAILED), 100),
    "with its queue": delete_with_queue,
}


@pytest.mark.parametrize("way", DELETIONS_OF_FAILED.values(), ids=DELETIONS_OF_FAILED)
def test_a_cancelled_job_that_is_still_listed_leaves_the_list_when_it_is_deleted(way):
    async def scenario(tables, server):
        root, _ = await running(server)
        [child] = await server.enqueue_jobs(OTHER, [new_job(parent=Parent(root, NAME, 0), run_after_ms=FAR_MS)])
        await server.enqueue_jobs(QUEUE, [new_job(parent=Parent(child, NAME, 0), run_after_ms=FAR_MS)])
        await server.cancel_jobs(OTHER, [JobDescriptor.parse(child)], "")
        assert await tables.left() == (1, 2, 0)
        await way(server)
        assert await tables.left() == (1, 1, 0)
        assert [one.kind for one in await read(server, root)] == [MessageKind.CANCELLED]

    with_tables(scenario, queues=(QUEUE, OTHER))


# A server of the version before


def test_a_server_of_the_version_before_works_beside_this_one():
    async def scenario(tables, server):
        await server.enqueue_jobs(QUEUE, [new_job()])
        await tables.run(
            "INSERT INTO {db}.jobs (id, queue_id, state, priority, run_after, moment, created_at, updated_at,"
            " attempts_allowed, attempts_remaining, body_bytes, unique_key, custom_status, body)"
            " SELECT 1000000, queue_id, 0, 1, run_after, NULL, created_at, updated_at, 2, 2, 3, NULL, '', 'old'"
            " FROM {db}.jobs"
        )
        (names, held) = await take(server)
        assert [name.rpartition(":")[2] for name in names if "1000000" in name] == ["1000000"]
        await tables.run("UPDATE {db}.jobs SET state = 3, moment = 1, attempts_remaining = 0 WHERE id = 1000000")
        settled = await server.ack_dequeued_jobs(QUEUE, [ack_of(name, claim=held, result=b"x") for name in names], [])
        assert (settled.changed, settled.stale) == (1, 1)
        records = await server.lookup_jobs(
            [*map(JobDescriptor.parse, names)], body_bytes=1_000_000, include_result=True
        )
        assert sorted((record.state, record.result, record.is_cancelled) for record in records) == [
            (SUCCEEDED, b"x", False), (FAILED, None, False),
        ]  # fmt: skip

    with_tables(scenario)
