"""Claims of the MySQL store: their round trips and statements, and bodies of all sizes."""

import asyncio

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.server.backends.mysql import scan_cursor
from pinlater.server.backends.mysql.candidates import SMALL_BODY_BYTES
from pinlater.server.backends.records import Claim
from tests.support.bench import QUEUE, START_MS, new_job
from tests.support.mysql_bench import with_servers

CLAIM = Claim("h:1:1:w:1", 60_000)
SIZES = [0, 1, SMALL_BODY_BYTES - 1, SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, 10 * SMALL_BODY_BYTES, 5]


def test_a_claim_is_two_round_trips(packets, monkeypatch):
    monkeypatch.setattr(scan_cursor, "MIN_SECONDS", 3600.0)  # so that a slow machine starts no scan anew

    async def scenario(server):
        await server.enqueue_jobs(QUEUE, [new_job(b"%d" % number) for number in range(8)])
        await server.dequeue_jobs(QUEUE, 2, CLAIM)
        # To find jobs: begin, is the queue there and which priorities have jobs, lock jobs. To claim: update, commit.
        packets.clear()
        await server.dequeue_jobs(QUEUE, 2, CLAIM)
        assert packets == [3, 2]
        packets.clear()
        await server.dequeue_jobs(QUEUE, 2, CLAIM, want_next_due=True)
        assert packets == [3, 2]
        await server.enqueue_jobs(QUEUE, [new_job(b"x" * (SMALL_BODY_BYTES + 1))])
        await server.dequeue_jobs(QUEUE, 2, CLAIM)
        packets.clear()
        await server.dequeue_jobs(QUEUE, 1, CLAIM)
        # As no job is left behind the last scan's end, it looks before that.
        assert packets == [3, 1, 3], "a large body is read once it is claimed"

    with_servers(scenario)


@pytest.mark.parametrize("priorities", [(1,), (1, 2, 3), (3,)])
def test_each_job_has_its_body_whatever_its_size(priorities):
    jobs = [
        new_job(bytes([number]) * size, priority=priority)
        for priority in priorities
        for number, size in enumerate(SIZES)
    ]

    async def scenario(server):
        await server.enqueue_jobs(QUEUE, jobs)
        expected = [job.body for job in jobs]
        assert [job.body for job in await server.peek_jobs(QUEUE, 100)] == expected
        first = (await server.dequeue_jobs(QUEUE, 100, CLAIM, max_bytes=2 * SMALL_BODY_BYTES)).jobs
        assert 0 < len(first) < len(SIZES)
        rest = (await server.dequeue_jobs(QUEUE, 100, CLAIM)).jobs
        assert [job.body for job in [*first, *rest]] == expected

    with_servers(scenario)


def test_the_next_due_job_of_any_priority_is_found():
    async def scenario(server):
        found = await server.dequeue_jobs(QUEUE, 5, CLAIM, want_next_due=True)
        assert (found.jobs, found.next_due_ms) == ([], None)
        for priority, delay in ((1, 900), (3, 300), (2, 600)):
            await server.enqueue_jobs(QUEUE, [new_job(priority=priority, run_after_ms=START_MS + delay)])
        await server.enqueue_jobs(QUEUE, [new_job(b"now", priority=3)])
        found = await server.dequeue_jobs(QUEUE, 5, CLAIM, want_next_due=True)
        assert ([job.body for job in found.jobs], found.next_due_ms) == ([b"now"], START_MS + 300)

    with_servers(scenario)


def test_a_queue_that_another_server_has_deleted_hands_nothing_out():
    async def scenario(first, second):
        await second.enqueue_jobs(QUEUE, [new_job()])
        await first.delete_queue(QUEUE)
        with pytest.raises(QueueNotFound):
            await second.dequeue_jobs(QUEUE, 1, CLAIM)

    with_servers(scenario, 2)


def test_nothing_is_kept_of_queues_that_this_or_another_server_has_deleted():
    async def scenario(server, other):
        shard = server.group.registry.named("1").shard
        [name] = await server.enqueue_jobs(QUEUE, [new_job()])
        for number in range(6):
            queue = f"queue{number}"
            await server.create_queue(queue)
            await server.enqueue_jobs(queue, [new_job(key=JobKey("ada")), new_job(parent=Parent(name, "resize", 0))])
            assert len((await server.dequeue_jobs(queue, 2, CLAIM)).jobs) == 2
            assert kept(shard) == {"claims": 1, "keyed": 1, "child": 1}
            await (server, other)[number % 2].delete_queue(queue)
            assert await server.queue_names() == {QUEUE}
            assert kept(shard) == {"claims": 0, "keyed": 0, "child": 0}

    def kept(shard):
        database = shard._database
        return {
            "claims": len(shard._claims._claims),
            "keyed": len(database.keyed_queues),
            "child": len(database.child_queues),
        }

    with_servers(scenario, 2)


def test_the_claims_of_a_deleted_queue_are_kept_while_one_is_under_way():
    async def scenario(server):
        shard = server.group.registry.named("1").shard
        await server.enqueue_jobs(QUEUE, [new_job()])
        await server.dequeue_jobs(QUEUE, 1, CLAIM)
        [[claims]] = [of_queue.values() for of_queue in shard._claims._claims.values()]
        claiming = asyncio.ensure_future(server.dequeue_jobs(QUEUE, 1, CLAIM))
        while claims.commit.is_idle:
            await asyncio.sleep(0)
        shard._claims.keep_only(frozenset())
        assert len(shard._claims._claims) == 1
        await claiming
        await claims.commit.finish()
        shard._claims.keep_only(frozenset())
        assert not shard._claims._claims

    with_servers(scenario)
