"""Keys of jobs through client, server and worker: what keeps them, and that they hold jobs up."""

import asyncio
import re

import pytest

from pinlater import AsyncClient, Constant, Job, JobState
from pinlater.client import JobKey
from pinlater.errors import CallTimeout
from pinlater.testing import FakeContext, LocalServer, run_inline

ran: list[str] = []


class Bill(Job, queue="bills", attempts=3, backoff=Constant(60), key="customer", in_order=True):
    customer: str
    number: int = 0
    failures: int = 0

    def run(self, context):
        ran.append(f"{self.customer}{self.number}")
        if context.attempt <= self.failures:
            raise ValueError("no luck")


class Poll(Job, queue="polls", attempts=3, key="customer", running_per_key=1):
    customer: str
    runs: int = 0

    def run(self, context):
        ran.append(f"{self.customer}{self.runs}")
        self.runs += 1
        if self.runs < 3:
            context.reschedule(after=60)


class Parent(Job, queue="parents"):
    def run(self, context):
        context.enqueue(Bill(customer="ada"), name="bill")
        context.enqueue(Bill(customer="ada"), name="other", key="bob", running_per_key=4)


class Nightly(Job, queue="nightly", every=60, key="customer", running_per_key=1):
    customer: str = "ada"

    def run(self, context):
        pass


@pytest.fixture
def server(tmp_path):
    ran.clear()
    with LocalServer(tmp_path) as server:
        yield server


def keys_in(client, queue):
    """Return the keys of all pending jobs of a queue."""
    jobs = [info for future in (False, True) for info in client.scan(queue, JobState.PENDING, future=future).jobs]
    return {info.key for info in jobs}


def test_a_retried_job_keeps_its_key_and_its_place(server):
    client = server.client(Bill)
    first, second = (client.enqueue(Bill(customer="a", number=n, failures=1 - n)) for n in range(2))
    client.enqueue(Bill(customer="b"))
    server.run_worker(Bill)
    assert ran == ["a0", "b0"]
    assert first.status().key == JobKey("a", 1, is_ordered=True)
    assert (first.status().waits_for_key, second.status().waits_for_key) == (False, True)
    server.advance(60)
    server.run_worker(Bill)
    assert ran == ["a0", "b0", "a0", "a1"]


def test_who_waits_for_a_job_is_told_that_it_waits_for_its_key(server):
    client = server.client(Bill)
    client.enqueue(Bill(customer="a"))
    with pytest.raises(CallTimeout, match="PENDING; it waits for other jobs of its key"):
        client.enqueue(Bill(customer="a")).wait(0)


def test_a_job_that_runs_again_keeps_its_key(server):
    handle = server.client(Poll).enqueue(Poll(customer="a"))
    for _ in range(3):
        server.run_worker(Poll)
        assert handle.status().key == JobKey("a", 1)
        server.advance(60)
    assert ran == ["a0", "a1", "a2"]
    assert handle.status().state is JobState.SUCCEEDED


def test_follow_ups_have_keys(server):
    client = server.client(Parent, Bill)
    client.enqueue(Parent())
    server.run_worker(Parent)
    assert keys_in(client, "bills") == {JobKey("ada", 1, is_ordered=True), JobKey("bob", 4)}


def test_the_job_of_a_periodic_class_has_its_key(server):
    client = server.client(Nightly)
    server.run_worker(Nightly)
    server.advance(60)
    assert len(server.run_worker(Nightly)) == 1
    [info] = client.scan("nightly", JobState.PENDING, future=True).jobs
    assert info.key == JobKey("ada", 1)


def test_many_jobs_have_keys(server):
    client = server.client(Bill)
    client.enqueue_many((Bill(customer=name) for name in "abc"), key=lambda job: f"customer {job.customer}")
    assert keys_in(client, "bills") == {JobKey(f"customer {name}", 1, is_ordered=True) for name in "abc"}


def test_the_asyncio_client_takes_the_options(server):
    async def enqueue():
        async with AsyncClient(server.address) as client:
            handle = await client.enqueue(Parent(), key="k", running_per_key=2)
            await client.enqueue_many([Parent()], key="k", in_order=True)
            await client.enqueue(Parent(), key="k", in_order=True, rate_per_key="3/m")
            return (await handle.status()).key

    client = server.client(Parent)
    assert asyncio.run(enqueue()) == JobKey("k", 2)
    rated = JobKey("k", 1, is_ordered=True, rate="3/m")
    assert keys_in(client, "parents") == {JobKey("k", 2), JobKey("k", 1, is_ordered=True), rated}


def test_the_testing_kit_takes_the_options():
    with run_inline(Bill, Parent) as client:
        assert client.enqueue(Bill(customer="a")).status().key == JobKey("a", 1, is_ordered=True)
        assert client.enqueue(Bill(customer="a"), key="b").status().key == JobKey("b", 1, is_ordered=True)
        assert client.enqueue_many([Bill(customer="c")], key=lambda job: job.customer, running_per_key=2) == 1
        client.enqueue(Parent())
        client.assert_succeeded()
    context = FakeContext()
    Parent().run(context)
    assert list(context.enqueued) == ["bill", "other"]


def test_a_bad_key_of_a_follow_up_is_refused_where_it_is_enqueued():
    class Bad(Job):
        def run(self, context):
            context.enqueue(Parent(), name="parent", in_order=True)

    with pytest.raises(ValueError, match=re.escape("Parent has none, so give key=")):
        Bad().run(FakeContext())
