"""The broker: parked dequeues, and what wakes them."""

import asyncio

import pytest

from pinlater.errors import DequeueRateLimited, QueueNotFound
from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.broker import Caller, endings
from tests.support.notifiers import FakeNotifier
from tests.unit.server.broker.broker_bench import bodies, job


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
        bench.broker.notifiers.append(FakeNotifier(lambda *told: heard.append(told)))
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
        bench.broker.wake_all(bench.limits.update({}))
        assert bodies(await waiting) == [b"held back"]

    on_bench(scenario)


def test_changed_limits_of_a_queue_send_nobody_to_the_others(on_bench, monkeypatch):
    async def scenario(bench):
        await bench.backend.create_queue("other")
        bench.limits.update({"other": 0.0})
        waiting = [await bench.parked(), await bench.parked("q", "other")]
        asked, dequeue_jobs = [], bench.backend.dequeue_jobs

        async def dequeue(queue, *args, **options):
            asked.append(queue)
            return await dequeue_jobs(queue, *args, **options)

        monkeypatch.setattr(bench.backend, "dequeue_jobs", dequeue)
        bench.broker.wake_all(bench.limits.update({}))
        while not asked:
            await asyncio.sleep(0)
        bench.broker.end_all_waits()
        await asyncio.gather(*waiting)
        assert asked == ["other"]

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
