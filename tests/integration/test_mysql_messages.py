"""Messages and children on MySQL: servers that send, sleep and end children at once, also while connections break."""

import asyncio
import itertools
import random

import pytest

from pinlater.errors import EnqueueRejected, ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.messages import Message, MessageKind, MessageWait, Parent
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql import messages
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import FAR_MS, QUEUE, START_MS, ack_of, checkpoint_of, new_job
from tests.support.mariadb_service import MariadbService, shared_service
from tests.support.mysql_bench import ConnectionKills, endpoint_of, fresh_prefix, make_fleet, with_servers

OTHER = "thumbnails"
PARENTS, CHILDREN = 6, 150
ACKERS = 12
NAME = "sizes"
_claims = itertools.count(1)


def claim():
    return Claim(f"host:1:1:worker:{next(_claims)}", 120_000)


async def take(server, queue=QUEUE, limit=100):
    """Claim jobs; return their names, and the claim."""
    held = claim()
    return [job.descriptor for job in (await server.dequeue_jobs(queue, limit, held)).jobs], held.descriptor


async def running(server, **options):
    """Return a job that runs, and its claim."""
    [name] = await server.enqueue_jobs(QUEUE, [new_job(**options)])
    [taken], held = await take(server)
    assert taken == name
    return name, held


def sleep(server, name, held, wait, **options):
    waits_for = [MessageWait(*wait)]
    item = checkpoint_of(name, claim=held, move_to_pending=True, run_after_ms=FAR_MS, waits_for=waits_for, **options)
    return server.checkpoint_jobs(QUEUE, [item])


def send(server, name, message_id="1"):
    return server.send_message(JobDescriptor.parse(name), Message("go", message_id, b"hello"))


async def read(server, name, of=NAME):
    return await server.read_messages(JobDescriptor.parse(name), of, 0, 10_000)


class Tables:
    """The tables of a shard, as they are.

    Args:
        connection: to its server.
        prefix: of the names of databases.
    """

    def __init__(self, connection, prefix):
        self._connection = connection
        self._database = f"{prefix}1"

    def bind(self, statement):
        return statement.format(db=self._database).encode()

    async def run(self, *statements):
        return [result.rows for result in await self._connection.run(*map(self.bind, statements))]

    async def left(self):
        """Return how many rows the tables of messages and children have."""
        names = ("messages", "children", "deleted_inboxes")
        rows = await self.run(*(f"SELECT COUNT(*) FROM {{db}}.{name}" for name in names))
        return tuple(found[0][0] for found in rows)

    async def until_locked_out(self):
        """Wait until a transaction waits for a lock of this connection's."""
        waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        while True:
            await asyncio.sleep(0.2)  # asked again within a tenth of a second, even by another test, it shows the same
            if (await self.run(waiting))[0]:
                return


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


# Many children


class Family:
    """Parents that wait for all their children, each in the other queue; those of the last one are the other parents.

    Args:
        servers: of one shard.
    """

    def __init__(self, *servers):
        self._servers = servers
        self.children = 0
        self.parents = []

    async def patiently(self, verb, *arguments):
        """Make a call until it is answered, as a client does."""
        while True:
            try:
                return await verb(*arguments)
            except ServiceError:
                await asyncio.sleep(0.01)

    async def found(self):
        """Store all jobs; those of ``OTHER`` are the children, but for the last parent's."""
        server = self._servers[0]
        [root] = await server.enqueue_jobs(QUEUE, [new_job()])
        (taken, held) = await take(server)
        parents = [new_job(parent=Parent(root, NAME, number), attempts=5) for number in range(PARENTS)]
        self.parents = await server.enqueue_jobs(QUEUE, parents)
        await sleep(server, root, held, (NAME, PARENTS))
        (taken, held) = await take(server)
        assert sorted(taken) == sorted(self.parents)
        for parent in self.parents:
            jobs = [new_job(b"%d" % n, parent=Parent(parent, NAME, n), attempts=3) for n in range(CHILDREN)]
            await server.enqueue_jobs(OTHER, jobs)
            self.children += CHILDREN
        return root, held

    async def work(self, lot):
        """End children: by success, failure, cancellation or deletion, as their numbers say."""
        while self.children > 0:
            server, held = lot.choice(self._servers), claim()
            try:
                jobs = (await server.dequeue_jobs(OTHER, lot.choice([1, 2, 5]), held)).jobs
            except ServiceError:
                continue
            numbers = {job.descriptor: int(job.body) for job in jobs}
            done = [ack_of(name, claim=held.descriptor, result=b"%d" % n) for name, n in numbers.items() if n % 5 > 1]
            lost = [
                ack_of(name, claim=held.descriptor, is_final=True, is_cancelled=n % 5 == 1, status=f"{n}")
                for name, n in numbers.items()
                if n % 5 <= 1
            ]
            await self.patiently(server.ack_dequeued_jobs, OTHER, done, lost)
            self.children -= len(jobs)
            if not jobs:
                await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with MariadbService(tmp_path_factory.mktemp("messages")) as service:
        yield service


def expected(number):
    """Return what a parent is told by the child of a number: kind and payload."""
    text = b"%d" % number
    if number % 5 > 1:
        return MessageKind.SUCCEEDED, text
    return (MessageKind.CANCELLED if number % 5 else MessageKind.FAILED), text


@pytest.mark.parametrize("is_killing", [False, True])
def test_each_child_tells_its_parent_once(service, is_killing):
    """Whatever server ends it, whatever else is ended at that moment; a claim that was cut off is not lost either."""

    async def run():
        prefix, endpoint = fresh_prefix(), endpoint_of(service)
        kills = ConnectionKills(endpoint, random.Random(1))
        servers = [make_fleet([endpoint], None, prefix=prefix, on_commit=kills.on_commit) for _ in range(2)]
        for queue in (QUEUE, OTHER):
            await servers[0].create_queue(queue)
        family = Family(*servers)
        async with asyncio.timeout(150):
            root, held = await family.found()
            async with asyncio.TaskGroup() as tasks:
                for number in range(ACKERS):
                    tasks.create_task(family.work(random.Random(number)))
                for name in family.parents:
                    tasks.create_task(family.patiently(sleep, servers[1], name, held, (NAME, CHILDREN)))
                if is_killing:
                    tasks.create_task(kills.until(lambda: not family.children))
        await check(servers[0], family, root)
        connection = await MysqlConnection.open(endpoint)
        assert await Tables(connection, prefix).left() == (PARENTS * (CHILDREN + 1), 0, 0)
        connection.close()
        await asyncio.gather(*(server.close() for server in servers))
        return kills

    async def check(server, family, root):
        for state, count in ((PENDING, 0), (IN_PROGRESS, 0)):
            assert await server.count_jobs(OTHER, JobFilter(state)) == count
        for parent in family.parents:
            found = await read(server, parent)
            assert [one.number for one in found] == [*range(1, CHILDREN + 1)]
            assert {int(one.id): (one.kind, one.payload) for one in found} == {
                number: expected(number) for number in range(CHILDREN)
            }
        woken, held = await take(server)
        assert sorted(woken) == sorted(family.parents)
        acks = [ack_of(name, claim=held) for name in woken]
        assert (await server.ack_dequeued_jobs(QUEUE, acks, [])).changed == PARENTS
        assert (await take(server))[0] == [root]
        assert len(await read(server, root)) == PARENTS

    kills = asyncio.run(run())
    if is_killing:
        assert kills.kills > 0
        assert kills.failed_commits > 0, "or nothing was killed that mattered"


def test_servers_that_end_parents_and_children_of_one_another_do_not_fail_by_that():
    """Each holds what the other needs next: the database ends one of the transactions, and it is tried again."""

    async def scenario(first, second):
        for _ in range(15):
            grand = await first.enqueue_jobs(QUEUE, [new_job()] * 2)
            parents = [(await first.enqueue_jobs(QUEUE, [new_job(parent=Parent(name, NAME, 0))]))[0] for name in grand]
            children = [
                (await first.enqueue_jobs(QUEUE, [new_job(parent=Parent(name, NAME, 0))]))[0] for name in parents
            ]
            _, held = await take(first)
            one, other = [
                [ack_of(name, claim=held) for name in names]
                for names in ((parents[1], children[0]), (parents[0], children[1]))
            ]
            settled = await asyncio.gather(
                first.ack_dequeued_jobs(QUEUE, one, []), second.ack_dequeued_jobs(QUEUE, other, [])
            )
            assert [found.changed for found in settled] == [2, 2]
            assert [len(await read(first, name)) for name in grand] == [1, 1]

    with_servers(scenario, 2)


def end_by_ack(server, name, held):
    return server.ack_dequeued_jobs(QUEUE, [ack_of(name, claim=held)], [])


def end_by_failure(server, name, held):
    return server.ack_dequeued_jobs(QUEUE, [], [ack_of(name, claim=held)])


def end_by_giving_back(server, name, held):
    return server.checkpoint_jobs(QUEUE, [checkpoint_of(name, claim=held, move_to_pending=True)])


@pytest.mark.parametrize("key", [None, JobKey("a", 1)], ids=["alone", "with a key"])
@pytest.mark.parametrize("end", [end_by_ack, end_by_failure, end_by_giving_back])
def test_a_server_that_has_never_heard_of_a_child_notices_its_parent(end, key):
    """It takes a job for one without parent and key, until the database tells it better."""

    async def scenario(first, second):
        parent, held = await running(first)
        await sleep(first, parent, held, (NAME, 1))
        child, held = await running(first, parent=Parent(parent, NAME, 0), key=key, attempts=5)
        assert len((await first.cancel_jobs(QUEUE, [JobDescriptor.parse(child)], "")).asked) == 1
        assert (await end(second, child, held)).changed == 1
        [told] = await read(second, parent)
        assert told.kind == (MessageKind.SUCCEEDED if end is end_by_ack else MessageKind.CANCELLED)
        assert (await take(second))[0] == [parent]

    with_servers(scenario, 2)


def test_many_children_are_told_with_few_packets(packets):
    async def scenario(server):
        [parent] = await server.enqueue_jobs(QUEUE, [new_job()])
        await server.enqueue_jobs(QUEUE, [new_job(parent=Parent(parent, NAME, n)) for n in range(300)])
        names, held = await take(server, limit=301)
        await server.ack_dequeued_jobs(QUEUE, [ack_of(names[1], claim=held)], [])  # the server knows the queue now
        packets.clear()
        settled = await server.ack_dequeued_jobs(QUEUE, [ack_of(name, claim=held) for name in names[2:]], [])
        assert settled.changed == 299
        assert len(packets) == 3, "the acks; the locks; the messages with the commit"
        assert len(await read(server, parent)) == 300

    with_servers(scenario)


def test_acks_of_jobs_without_a_parent_are_one_packet(packets):
    async def scenario(server):
        names = await server.enqueue_jobs(QUEUE, [new_job()] * 20)
        _, held = await take(server)
        for some in (names[:10], names[10:]):
            packets.clear()
            await server.ack_dequeued_jobs(QUEUE, [ack_of(name, claim=held, result=b"x") for name in some], [])
            assert [count for count in packets if count > 1] == [], "a transaction by itself"
            assert len(packets) == 1

    with_servers(scenario)


def test_only_who_holds_a_job_that_is_to_stop_asks_which_it_is(packets):
    async def scenario(server):
        names = await server.enqueue_jobs(QUEUE, [new_job()] * 20)
        _, held = await take(server)
        renewals = [checkpoint_of(name, claim=held) for name in names]
        for changes in ({}, {"body": b"new"}):
            packets.clear()
            renewals[0] = checkpoint_of(names[0], claim=held, **changes)
            assert (await server.checkpoint_jobs(QUEUE, renewals)).cancelled == ()
            assert len(packets) == 1
        await server.cancel_jobs(QUEUE, [JobDescriptor.parse(names[7])], "")
        packets.clear()
        assert [*map(str, (await server.checkpoint_jobs(QUEUE, renewals)).cancelled)] == [names[7]]
        assert len(packets) == 2

    with_servers(scenario)


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
