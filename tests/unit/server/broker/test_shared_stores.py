"""Stores that several servers share, and that may fail: no dequeue waits beside a job, and no claim is lost."""

import asyncio
from dataclasses import replace

import pytest

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.broker import Caller, dequeue
from tests.support.failing_commits import FailingCommits
from tests.support.notifiers import FakeNotifier
from tests.unit.server.broker.broker_bench import bodies, job


def test_a_job_of_another_server_reaches_a_waiting_dequeue_when_it_is_told(on_bench):
    async def scenario(bench):
        bench.backend.capabilities = replace(bench.backend.capabilities, is_serial=False)
        waiting = await bench.parked()
        await bench.backend.enqueue_jobs("q", [job(b"theirs")])
        bench.broker.on_remote_jobs("q", None)
        assert bodies(await waiting) == [b"theirs"]
        waiting = await bench.parked()
        soon = job(b"later", delay_ms=80)
        await bench.backend.enqueue_jobs("q", [soon])
        bench.broker.on_remote_jobs("q", soon.run_after_ms)
        assert bodies(await waiting) == [b"later"]
        bench.broker.on_remote_jobs("nobody_waits_here", None)

    on_bench(scenario)


def test_jobs_on_offer_that_are_not_new_wake_a_dequeue_and_change_nothing_that_is_known(on_bench, monkeypatch):
    async def scenario(bench):
        bench.backend.capabilities = replace(bench.backend.capabilities, is_serial=False)
        arrived = []
        monkeypatch.setattr(bench.backend, "jobs_arrived", lambda *news: arrived.append(news))
        waiting = await bench.parked()
        await bench.backend.enqueue_jobs("q", [job(b"left")])
        assert bench.broker.take_jobs("q", 0, ()) == 1
        assert bodies(await waiting) == [b"left"]
        assert (bench.broker.take_jobs("q", 0, ()), arrived) == (0, [])
        assert (bench.broker.take_jobs("q", 1, ()), arrived) == (0, [("q", None, ())])

    on_bench(scenario)


@pytest.mark.parametrize("is_partial", [True, False])
@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("enqueue_jobs", lambda broker: broker.enqueue("q", [job()])),
        ("retry_failed_jobs", lambda broker: broker.retry_failed("q", 1, 1, None, 10)),
        ("ack_dequeued_jobs", lambda broker: broker.ack("q", [], [])),
        ("cancel_jobs", lambda broker: broker.cancel("q", [], "")),
    ],
)
def test_what_a_call_that_failed_on_some_shards_made_claimable_on_others_is_announced(
    on_bench, monkeypatch, verb, call, is_partial
):
    async def fail(*_, **__):
        error = ShardConnectionFailed("shard 2 does not answer")
        error.is_partial = is_partial
        raise error

    async def scenario(bench):
        told = []
        bench.broker._is_serial = False
        bench.broker.notifiers.append(FakeNotifier(lambda queue, due_ms, _, count: told.append((queue, due_ms, count))))
        monkeypatch.setattr(bench.backend, verb, fail)
        with pytest.raises(ShardConnectionFailed):
            await call(bench.broker)
        assert told == [("q", None, None)] * is_partial

    on_bench(scenario)


def test_a_job_without_notification_is_found_by_polling(on_bench):
    async def scenario(bench):
        bench.backend.capabilities = replace(bench.backend.capabilities, is_serial=False)
        waiting = await bench.parked()
        await bench.backend.enqueue_jobs("q", [job(b"theirs")])
        assert bodies(await waiting) == [b"theirs"]

    on_bench(scenario)


def test_each_try_of_a_dequeue_has_a_new_claim(on_bench):
    """The answer to one look may get lost; what it claimed is given back then, and nothing else."""

    async def scenario(bench):
        order = bench.order()
        waiting = asyncio.create_task(bench.broker.dequeue(order, Caller()))
        while not bench.broker.parked_dequeues:
            await asyncio.sleep(0)
        first = order.new_claim()
        await bench.broker.enqueue("q", [job()])
        found = await waiting
        assert bodies(found) == [b"x"]
        number = int(found.claim.descriptor.rpartition(":")[2])
        assert number > int(first.descriptor.rpartition(":")[2])
        [descriptor] = [one.descriptor for one in found.jobs["q"]]
        [record] = await bench.backend.lookup_jobs([JobDescriptor.parse(descriptor)])
        assert record.claim == found.claim.descriptor

    on_bench(scenario)


def test_a_claim_that_took_longer_than_its_lease_says_so(on_bench, monkeypatch):
    async def scenario(bench):
        seconds = 1000.0
        monkeypatch.setattr(dequeue, "elapsed_seconds", lambda: seconds)
        await bench.broker.enqueue("q", [job()])
        found = await bench.broker.dequeue(bench.order(), Caller())
        seconds += 29.9
        assert not found.is_overdue
        seconds += 0.2
        assert found.is_overdue

    on_bench(scenario)


def test_a_job_whose_claim_failed_goes_to_another_waiting_dequeue(on_bench):
    async def scenario(bench):
        first, second = await bench.parked(wait=3600), await bench.parked(wait=3600, name="b")
        commits = FailingCommits.of(bench.backend)
        commits.plan = iter([True, False, True])  # of all together, of the enqueue, of the claim
        await bench.broker.enqueue("q", [job(b"new")])
        with pytest.raises(UnknownError):
            await first
        assert bodies(await second) == [b"new"]
        assert commits.failed == 2

    on_bench(scenario)


def test_no_queue_is_assumed_empty_after_a_failed_claim(on_bench):
    async def scenario(bench):
        assert not (await bench.broker.dequeue(bench.order(wait=0), Caller())).jobs
        commits = FailingCommits.of(bench.backend)
        commits.plan = iter([True, False, True])
        waiting = await bench.parked()
        await bench.broker.enqueue("q", [job(b"new")])
        with pytest.raises(UnknownError):
            await waiting
        assert bodies(await bench.broker.dequeue(bench.order(wait=0), Caller())) == [b"new"]

    on_bench(scenario)


def test_what_nobody_got_is_given_back_when_the_store_works_again(on_bench, monkeypatch):
    monkeypatch.setattr("pinlater.server.retry_until_done.PAUSE_SECONDS", 0.01)

    async def scenario(bench):
        [name] = await bench.broker.enqueue("q", [job()])
        handed_out = await bench.broker.dequeue(bench.order(), Caller())
        commits = FailingCommits.of(bench.backend)
        commits.plan = iter([True] * 3)
        await bench.broker.give_back(handed_out)
        waiting = asyncio.create_task(bench.broker.dequeue(bench.order(wait=3600, name="b"), Caller()))
        [again] = (await waiting).jobs["q"]
        assert (again.descriptor, again.attempts_remaining) == (name, 2)
        assert commits.failed == 3

    on_bench(scenario)
