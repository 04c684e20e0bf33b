"""A batch whose unique keys belong on several shards of Redis, one of which refuses its part."""

import asyncio

import pytest
import redis

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.records import IdempotencyKey, JobFilter
from tests.support.bench import QUEUE, new_job
from tests.support.fleets import redis_fleets

JOBS = [new_job(b"%d" % number, unique_key=f"key {number}") for number in range(30)]


@pytest.fixture
def fleets(tmp_path):
    fleet, close = redis_fleets(tmp_path)
    yield fleet
    close()


def broken_key(shard):
    """Return a key under which no script of a shard's queue expects a text."""
    return f"pinlater:{{{shard}:{QUEUE}}}:1:unique"


@pytest.mark.parametrize("once", [IdempotencyKey(b"k" * 16, 60_000), None], ids=["with a key", "without"])
@pytest.mark.parametrize("refuser", ["1", "2"])
def test_the_error_says_what_is_stored_and_the_same_call_stores_the_rest(fleets, refuser, once):
    async def scenario():
        store = fleets()
        await store.create_queue(QUEUE)
        [member] = [member for member in store.group.registry if member.name == refuser]
        with redis.Redis(port=member.spec.endpoint.master[1]) as client:
            client.set(broken_key(refuser), "no hash")
            with pytest.raises(UnknownError) as refused:
                await store.enqueue_jobs(QUEUE, JOBS, once=once)
            client.delete(broken_key(refuser))
        count = await store.count_jobs(QUEUE, JobFilter(PENDING))
        assert str(refused.value).startswith(f"{count} of the 30 jobs are stored") == bool(count)
        names = await store.enqueue_jobs(QUEUE, JOBS, once=once and once._replace(is_repeat=True))
        found = await store.lookup_jobs([JobDescriptor.parse(name) for name in names], body_bytes=1_000_000)
        assert [record.body for record in found] == [job.body for job in JOBS]
        assert await store.count_jobs(QUEUE, JobFilter(PENDING)) == 30
        await store.close()
        return count

    asyncio.run(scenario())
