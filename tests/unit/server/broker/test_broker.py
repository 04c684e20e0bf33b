"""The broker: parked dequeues, and what wakes them."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pinlater.errors import DequeueRateLimited, QueueNotFound, UnknownError
from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import NewJob
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.records import Claim, CommitStats, JobFilter
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.broker import Broker, Caller, dequeue, endings
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits
from tests.support.failing_commits import FailingCommits


class Bench:
    """A broker on a real store, with what its transactions carried."""

    def __init__(self, data_dir: Path) -> None:
        self.commits: list[CommitStats] = []
        self.limits = RateLimits()
        self.backend = SqliteStore(data_dir, priority_levels=3, now_ms=self.now_ms, on_commit=self.commits.append)
        self.broker = Broker(self.backend, self.limits, self.now_ms)

    @staticmethod
    def now_ms() -> int:
        return int(time.time() * 1000)

    def order(self, *queues: str, limit: int = 1, wait: float = 10.0, name: str = "a") -> DequeueRequest:
        numbers = itertools.count(1)
        return DequeueRequest(
            queues or ("q",), limit, 1_000_000, lambda: Claim(f"h:1:1:{name}:{next(numbers)}", 30_000), wait
        )

    async def parked(self, *queues: str, caller: Caller | None = None, **order: object) -> asyncio.Task:
        """Return a dequeue that waits by now."""
        task = asyncio.create_task(self.broker.dequeue(self.order(*queues, **order), caller or Caller()))
        waiting = self.broker.parked_dequeues
        while self.broker.parked_dequeues == waiting:
            await asyncio.sleep(0)
        return task


def job(body: bytes = b"x", delay_ms: int | None = None) -> NewJob:
    return NewJob(body, 1, None if delay_ms is None else Bench.now_ms() + delay_ms, 2, "")


@pytest.fixture
def on_bench(tmp_path):
    """Run a coroutine function with a bench that has the queues q and r."""

    def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
        async def whole():
            bench = Bench(tmp_path)
            try:
                for queue in ("q", "r"):
                    await bench.backend.create_queue(queue)
                async with asyncio.timeout(20):
                    await scenario(bench)
            finally:
                await bench.backend.close()

        asyncio.run(whole())

    return run


def bodies(dequeued) -> list[bytes]:
    return [claimed.body for jobs in dequeued.jobs.values() for claimed in jobs]


def test_a_dequeue_that_waits_for_several_queues_counts_once(on_bench):
    async def scenario(bench):
        both, one = await bench.parked("q", "r"), await bench.parked("r", name="b")
        assert bench.broker.parked_dequeues == 2
        await bench.broker.enqueue("q", [job()])
        assert bodies(await both) == [b"x"]
        assert bench.broker.parked_dequeues == 1
        bench.broker.end_all_waits()
        await one
        assert bench.broker.parked_dequeues == 0

    on_bench(scenario)


def test_a_waiting_dequeue_gets_the_job_in_the_transaction_that_stores_it(on_bench):
    async def scenario(bench):
        waiting = await bench.parked()
        before = len(bench.commits)
        await bench.broker.enqueue("q", [job(b"new")])
        assert bodies(await waiting) == [b"new"]
        assert [commit.requests for commit in bench.commits[before:]] == [2]

    on_bench(scenario)


def test_a_wait_that_finds_nothing_ends_empty_and_asks_the_store_once(on_bench):
    async def scenario(bench):
        before = len(bench.commits)
        assert (await bench.broker.dequeue(bench.order(wait=0.05), Caller())).jobs == {}
        assert (await bench.broker.dequeue(bench.order(wait=0.05), Caller())).jobs == {}
        assert len(bench.commits) - before == 1

    on_bench(scenario)


def test_a_dequeue_with_a_call_behind_it_does_not_wait(on_bench):
    async def scenario(bench):
        caller = Caller()
        caller.interrupt()  # before there was a wait: while the dequeue was decoded, or looked for jobs
        async with asyncio.timeout(20):
            assert (await bench.broker.dequeue(bench.order(wait=3600), caller)).jobs == {}

    on_bench(scenario)


def test_waiting_dequeues_are_served_in_the_order_they_came(on_bench):
    async def scenario(bench):
        tasks = [await bench.parked(name=name) for name in "abc"]
        await bench.broker.enqueue("q", [job(b"1"), job(b"2")])
        assert bodies(await tasks[0]) == [b"1"]
        assert bodies(await tasks[1]) == [b"2"]
        assert not tasks[2].done()
        await bench.broker.enqueue("q", [job(b"3")])
        assert bodies(await tasks[2]) == [b"3"]

    on_bench(scenario)


def test_a_batch_larger_than_the_first_wait_can_take_wakes_the_next(on_bench):
    async def scenario(bench):
        tasks = [await bench.parked(limit=2, name=name) for name in "abc"]
        await bench.broker.enqueue("q", [job(b"%d" % n) for n in range(5)])
        handed_out = [bodies(await task) for task in tasks]
        assert handed_out == [[b"0", b"1"], [b"2", b"3"], [b"4"]]

    on_bench(scenario)


def test_a_scheduled_job_wakes_the_wait_when_it_falls_due_and_not_before(on_bench):
    async def scenario(bench):
        waiting = await bench.parked()
        scheduled = job(b"later", delay_ms=80)
        await bench.broker.enqueue("q", [scheduled])
        assert bodies(await waiting) == [b"later"]
        assert bench.now_ms() >= scheduled.run_after_ms

    on_bench(scenario)


def test_a_wait_that_begins_after_a_job_was_scheduled_is_woken_too(on_bench):
    async def scenario(bench):
        await bench.broker.enqueue("q", [job(b"later", delay_ms=80)])
        assert bodies(await bench.broker.dequeue(bench.order(), Caller())) == [b"later"]

    on_bench(scenario)


def test_a_failed_job_wakes_the_wait_when_its_retry_falls_due(on_bench):
    async def scenario(bench):
        await bench.broker.enqueue("q", [job(b"again")])
        [first] = (await bench.broker.dequeue(bench.order(), Caller())).jobs["q"]
        waiting = await bench.parked()
        await bench.broker.ack("q", [], [StoredAck(JobDescriptor.parse(first.descriptor), None, "", 60, False)])
        assert bodies(await waiting) == [b"again"]

    on_bench(scenario)


@pytest.mark.parametrize(("attempts", "is_final", "wakes"), [(2, False, 1), (2, True, 0), (1, False, 0)])
def test_only_a_failed_job_that_is_retried_wakes_anybody(on_bench, attempts, is_final, wakes):
    async def scenario(bench):
        await bench.broker.enqueue("q", [job()._replace(attempts=attempts)])
        [first] = (await bench.broker.dequeue(bench.order(), Caller())).jobs["q"]
        heard = []
        bench.broker.notifiers.append(lambda *told: heard.append(told))
        await bench.broker.ack("q", [], [StoredAck(JobDescriptor.parse(first.descriptor), None, "", 60, is_final)])
        assert len(heard) == wakes

    on_bench(scenario)


def test_an_expired_claim_wakes_the_wait(on_bench):
    async def scenario(bench):
        await bench.broker.enqueue("q", [job(b"lost")])
        order = bench.order()._replace(new_claim=lambda: Claim("h:1:1:dead:1", 20))
        await bench.broker.dequeue(order, Caller())
        waiting = await bench.parked()
        await asyncio.sleep(0.03)
        await bench.broker.reap(10, server_age_ms=10_000, quiet_ms=0)
        assert bodies(await waiting) == [b"lost"]

    on_bench(scenario)


async def _lose(bench, _descriptor):
    await asyncio.sleep(0.03)
    await bench.broker.reap(10, server_age_ms=10_000, quiet_ms=0)


async def _delete(bench, descriptor):
    await bench.broker.delete_these("q", [descriptor], IN_PROGRESS)


async def _delete_all(bench, _descriptor):
    await bench.broker.delete("q", JobFilter(IN_PROGRESS), 10)


async def _delete_queue(bench, _descriptor):
    await bench.broker.delete_queue("q")


async def _give_back_cancelled(bench, descriptor):
    await bench.broker.cancel("q", [descriptor], "")
    await bench.broker.checkpoint("q", [StoredCheckpoint(descriptor, CLAIM_OF_WORKER, "", None, True, 0, None, "")])


async def _release_cancelled(bench, descriptor):
    await bench.broker.cancel("q", [descriptor], "")
    await bench.broker.release("q", "w")


CLAIM_OF_WORKER = "h:1:1:w:1"


@pytest.mark.parametrize("end", [_lose, _delete, _delete_all, _delete_queue, _give_back_cancelled, _release_cancelled])
def test_whatever_ends_a_job_ends_the_wait_for_its_end(on_bench, monkeypatch, end):
    monkeypatch.setattr(endings, "_LONELY_POLL_SECONDS", 3600.0)

    async def scenario(bench):
        await bench.broker.enqueue("q", [job()._replace(attempts=1)])
        order = bench.order()._replace(new_claim=lambda: Claim(CLAIM_OF_WORKER, 20))
        [claimed] = (await bench.broker.dequeue(order, Caller())).jobs["q"]
        descriptor, asked = JobDescriptor.parse(claimed.descriptor), []

        async def unfinished(jobs):
            asked.append(jobs)
            [record] = await bench.backend.lookup_jobs([descriptor])
            return jobs if record is not None and record.state == IN_PROGRESS else []

        waiting = asyncio.create_task(bench.broker.endings.wait([str(descriptor)], unfinished, 60.0, Caller()))
        while not asked:
            await asyncio.sleep(0)
        await end(bench, descriptor)
        await waiting

    on_bench(scenario)


def test_several_queues_are_waited_for_at_once_and_asked_in_order(on_bench):
    async def scenario(bench):
        waiting = await bench.parked("q", "r", limit=5)
        await bench.broker.enqueue("r", [job(b"of r")])
        assert bodies(await waiting) == [b"of r"]
        await bench.broker.enqueue("r", [job(b"of r")])
        await bench.broker.enqueue("q", [job(b"of q")])
        assert bodies(await bench.broker.dequeue(bench.order("q", "r", limit=5), Caller())) == [b"of q", b"of r"]

    on_bench(scenario)


def test_a_caller_that_goes_on_or_hangs_up_ends_its_wait(on_bench):
    async def scenario(bench):
        for end in (Caller.interrupt, Caller.disconnect):
            caller = Caller()
            waiting = await bench.parked(caller=caller)
            end(caller)
            assert (await waiting).jobs == {}
        await bench.broker.enqueue("q", [job(b"kept")])
        assert bodies(await bench.broker.dequeue(bench.order(), Caller())) == [b"kept"]

    on_bench(scenario)


def test_waits_on_a_deleted_queue_learn_that_it_is_gone(on_bench):
    async def scenario(bench):
        waiting = await bench.parked()
        await bench.broker.delete_queue("q")
        with pytest.raises(QueueNotFound, match="q"):
            await waiting

    on_bench(scenario)


def test_asking_for_queues_that_are_not_there_leaves_nothing_behind(on_bench):
    async def scenario(bench):
        for number in range(50):
            with pytest.raises(QueueNotFound):
                await bench.broker.dequeue(bench.order(f"none_{number}"), Caller())
        assert not [queue for queue in bench.broker._queues._queues if queue.startswith("none")]

    on_bench(scenario)


def test_stopping_answers_all_waits_and_lets_none_begin(on_bench):
    async def scenario(bench):
        waiting = [await bench.parked(name=name) for name in "ab"]
        bench.broker.end_all_waits()
        assert [(await task).jobs for task in waiting] == [{}, {}]
        assert (await bench.broker.dequeue(bench.order(), Caller())).jobs == {}

    on_bench(scenario)


def test_a_rate_limit_hands_out_what_it_allows_then_lets_wait_or_refuses(on_bench):
    async def scenario(bench):
        bench.limits.update({"q": 20.0})
        await bench.broker.enqueue("q", [job(b"%d" % n) for n in range(30)])
        assert len(bodies(await bench.broker.dequeue(bench.order(limit=30), Caller()))) == 20
        with pytest.raises(DequeueRateLimited, match="rate"):
            await bench.broker.dequeue(bench.order(limit=30, wait=0), Caller())
        assert bodies(await bench.broker.dequeue(bench.order(limit=30), Caller()))  # waits for a token

    on_bench(scenario)


def test_a_paused_queue_refuses_after_the_wait_and_goes_on_when_resumed(on_bench):
    async def scenario(bench):
        bench.limits.update({"q": 0.0})
        await bench.broker.enqueue("q", [job(b"held back")])
        with pytest.raises(DequeueRateLimited, match="paused"):
            await bench.broker.dequeue(bench.order(wait=0.02), Caller())
        with pytest.raises(DequeueRateLimited, match="paused"):
            await bench.broker.peek("q", 1, 1_000_000)
        waiting = await bench.parked()
        bench.limits.update({})
        bench.broker.wake_all()
        assert bodies(await waiting) == [b"held back"]

    on_bench(scenario)


def test_an_empty_answer_costs_no_tokens(on_bench):
    async def scenario(bench):
        bench.limits.update({"q": 5.0})
        for _ in range(20):
            assert (await bench.broker.dequeue(bench.order(limit=5, wait=0), Caller())).jobs == {}
        await bench.broker.enqueue("q", [job() for _ in range(5)])
        assert len(bodies(await bench.broker.dequeue(bench.order(limit=5), Caller()))) == 5

    on_bench(scenario)


def test_a_job_that_was_handed_out_is_seen_as_in_progress_at_once(on_bench):
    async def scenario(bench):
        for number in range(100):
            await bench.broker.enqueue("q", [job(b"%d" % number)])
            await bench.broker.dequeue(bench.order(), Caller())
            assert await bench.backend.count_jobs("q", JobFilter(IN_PROGRESS)) == number + 1

    on_bench(scenario)


def test_an_answer_takes_no_more_than_fits_but_at_least_one_job(on_bench):
    async def scenario(bench):
        await bench.broker.enqueue("q", [job(b"x" * size) for size in (400_000, 300_000, 600_000, 1_200_000, 1)])
        await bench.broker.enqueue("r", [job(b"y")])
        sizes = []
        for _ in range(5):
            answer = await bench.broker.dequeue(bench.order("q", "r", limit=100, wait=0), Caller())
            sizes.append([len(body) for body in bodies(answer)])
        assert sizes == [[400_000, 300_000], [600_000], [1_200_000], [1, 1], []]

    on_bench(scenario)


# Stores that several servers share


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
