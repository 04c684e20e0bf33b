"""Unique keys on the wire, as a client that shares no code with the service sends them, and by our own clients."""

import asyncio

import pytest

from pinlater import AsyncClient, Client, Job
from tests.integration.independent import REJECTED, count, put, refused, take


class Refresh(Job):
    account: int = 0


def test_a_key_is_good_for_one_job_at_a_time(client, queue):
    first, second, plain = put(client, queue, b"1", b"2", uniqueKey="k") + put(client, queue, b"3")
    assert first == second != plain
    assert list(take(client, queue)["jobs"].values()) == [b"1", b"3"]
    assert put(client, queue, b"4", uniqueKey="k") == [first]
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": first}])
    (third,) = put(client, queue, b"5", uniqueKey="k")
    assert third != first
    assert count(client, queue) == 1


@pytest.mark.parametrize(
    ("key", "text"),
    [("", "1 to 200"), ("k" * 201, "has 201 characters"), ("a\0b", "contains a NUL")],
    ids=["empty", "long", "nul"],
)
def test_keys_that_no_store_could_keep_are_refused_with_their_batch(client, queue, key, text):
    with refused(REJECTED, text):
        client.enqueueJobs(queueName=queue, jobs=[{"body": b"1"}, {"body": b"2", "uniqueKey": key}])
    assert count(client, queue) == 0
    assert len(put(client, queue, b"x", uniqueKey="é" * 200)) == 1


def test_both_clients_send_keys(client, queue, shared_server):
    async def enqueue_asynchronously(address):
        async with AsyncClient(address) as own:
            return (await own.enqueue(Refresh(), queue=queue, unique="account 1")).descriptor

    address = f"127.0.0.1:{shared_server.port}"
    with Client(address) as own:
        handle = own.enqueue(Refresh(account=1), queue=queue, unique="account 1")
        again = own.enqueue(Refresh(account=2), queue=queue, unique="account 1")
        other = own.enqueue(Refresh(account=2), queue=queue, unique="account 2")
    assert handle.descriptor == again.descriptor != other.descriptor
    assert asyncio.run(enqueue_asynchronously(address)) == handle.descriptor
    assert count(client, queue) == 2


def test_each_of_many_jobs_has_the_key_that_is_made_of_it(client, queue, shared_server):
    async def enqueue_asynchronously(jobs):
        async with AsyncClient(address) as own:
            return await own.enqueue_many(jobs, queue=queue, unique=key_of)

    def key_of(job):
        return f"account {job.account}" if job.account else None

    address = f"127.0.0.1:{shared_server.port}"
    with Client(address) as own:
        assert own.enqueue_many([Refresh(account=at % 5) for at in range(20)], queue=queue, unique=key_of) == 20
        assert count(client, queue) == 4 + 4
        assert asyncio.run(enqueue_asynchronously([Refresh(account=at % 6) for at in range(12)])) == 12
        assert count(client, queue) == 4 + 2 + 5
        with pytest.raises(ValueError, match="unique='' is no key"):
            own.enqueue_many([Refresh()], queue=queue, unique=lambda _: "")
        with pytest.raises(TypeError, match="unique=7 is no key"):
            own.enqueue_many([Refresh()], queue=queue, unique=lambda _: 7)


def test_a_key_may_be_taken_until_the_start_or_for_a_time(client, queue):
    first, second = put(client, queue, b"1", uniqueKey="k", uniqueUntilStarted=True) + put(
        client, queue, b"2", uniqueKey="t", uniqueForMillis=3_600_000
    )
    assert len(take(client, queue)["jobs"]) == 2
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": second}])
    assert put(client, queue, b"3", uniqueKey="k", uniqueUntilStarted=True) != [first]
    assert put(client, queue, b"4", uniqueKey="t") == [second]
    for period_ms in (-1, 367 * 86_400_000):
        with refused(REJECTED, "0 to 366 days"):
            put(client, queue, b"5", uniqueKey="t", uniqueForMillis=period_ms)


def test_a_waiting_job_may_be_replaced_and_put_off(client, queue):
    (first,) = put(client, queue, b"1", uniqueKey="k")
    assert put(client, queue, b"2", uniqueKey="k", onDuplicate=1) == [first]
    assert list(take(client, queue)["jobs"].values()) == [b"2"]
    later = 2**42
    (second,) = put(client, queue, b"3", uniqueKey="d", runAfterTimestampMillis=later)
    assert put(client, queue, b"4", uniqueKey="d", onDuplicate=2, maxDelayMillis=0) == [second]
    assert list(take(client, queue)["jobs"].values()) == [b"4"]
    with refused(REJECTED, "onDuplicate of job 0 is 3"):
        put(client, queue, b"5", uniqueKey="k", onDuplicate=3)
