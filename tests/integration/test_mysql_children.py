"""Children and their parents on MySQL, with servers that end them at the same time."""

import asyncio
import random

import pytest

from pinlater.errors import ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.messages import MessageKind, Parent
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import JobFilter
from tests.integration.mysql_messages import NAME, OTHER, Tables, claim, read, running, sleep, take
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.support.mariadb_service import MariadbService
from tests.support.mysql_bench import ConnectionKills, endpoint_of, fresh_prefix, make_fleet, with_servers

PARENTS, CHILDREN = 6, 150
ACKERS = 12


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
