"""Batches: jobs enqueued together, and what follows when all have ended."""

import asyncio
import contextlib
import signal
import threading

import pytest

from pinlater import AsyncClient, Client, Discard, Job, RawJob
from pinlater.client import Batch
from pinlater.client.batch_jobs import batch_job, parts
from pinlater.client.jobs import encoder
from pinlater.errors import EnqueueRejected, JobFailed, JobWasCancelled
from pinlater.jobs.batch import MESSAGE_NAME, BatchOutcome
from pinlater.model.state import JobState
from pinlater.testing import run_inline
from tests.support.lossy_proxy import LossyProxy

done = []


class Resize(Job, queue="photos", attempts=2):
    photo: str

    def run(self, context):
        if self.photo == "broken.jpg":
            raise Discard("no photo")
        if self.photo == "odd.jpg" and context.attempt == 1:
            raise OSError("once")
        done.append(self.photo)


class Publish(Job, queue="albums", priority=2, attempts=7, key="album", in_order=True):
    album: str

    def run(self, context):
        done.append(f"publish {self.album} {context.attempts_allowed}")


class Complain(Job, queue="complaints"):
    def run(self, context):
        done.append("complain")


class Ring(RawJob, queue="bells"):
    def run(self, context):
        done.append(self.body)


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@pytest.fixture
def client():
    with run_inline(Resize, Publish, Complain, Ring) as client:
        yield client


def photos(*names):
    return [Resize(photo=name) for name in names]


def test_what_follows_runs_when_all_have_succeeded(client):
    handle = client.batch(photos("cat.jpg", "odd.jpg", "dog.jpg"), then=Publish(album="pets"), on_failure=Complain())
    assert handle.result(0) == BatchOutcome(succeeded=3, failed=0)
    assert sorted(done) == ["cat.jpg", "dog.jpg", "odd.jpg", "publish pets 7"]
    assert done[-1].startswith("publish"), "and not before"


def test_if_one_has_failed_for_good_the_others_still_run_and_the_other_job_follows(client):
    handle = client.batch(photos("cat.jpg", "broken.jpg", "dog.jpg"), then=Publish(album="pets"), on_failure=Complain())
    assert handle.result(0) == BatchOutcome(succeeded=2, failed=1)
    assert done[-1] == "complain"
    assert sorted(done[:-1]) == ["cat.jpg", "dog.jpg"]


def test_a_batch_needs_nothing_that_follows(client):
    assert client.batch(photos("cat.jpg")).result(0) == (1, 0)
    assert client.batch(photos("broken.jpg"), then=Complain()).result(0) == (0, 1)
    assert done == ["cat.jpg"]


def test_a_batch_without_jobs_is_done_at_once(client):
    assert client.batch([], then=Complain()).result(0) == (0, 0)
    assert done == ["complain"]


def test_jobs_of_several_classes_and_raw_ones_are_a_batch(client):
    handle = client.batch([*photos("cat.jpg"), Ring(body=b"ding"), Complain()], then=Ring(body=b"\xff dong"))
    assert handle.result(0) == (3, 0)
    assert done[-1] == b"\xff dong"


def test_raw_jobs_alone_need_a_queue(client):
    with pytest.raises(ValueError, match="batch_queue="):
        client.batch([Ring(body=b"ding")], then=Ring(body=b"dong"))
    assert client.batch([Ring(body=b"ding")], then=Ring(body=b"dong"), batch_queue="photos").result(0) == (1, 0)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_of_calls_that_cannot_be_is_refused_before_anything_is_enqueued(local_server, size):
    with Client(local_server.address) as client:
        with pytest.raises(ValueError, match=f"batch_size={size} must be at least 1"):
            client.batch(photos("cat.jpg"), batch_size=size)
        assert client.queue_names() == set()


@pytest.mark.parametrize("queue", [None, "photos"])
def test_what_follows_a_batch_is_one_job(client, queue):
    with pytest.raises(TypeError, match=r"\[\] is no job, but of type list"):
        client.batch([], then=[], batch_queue=queue)


@pytest.mark.parametrize("wait", ["wait", "result"])
def test_a_time_to_wait_is_a_number(client, wait):
    with pytest.raises(TypeError, match="timeout='5s' has to be a number of seconds"):
        getattr(client.batch([Ring(body=b"ding")], batch_queue="photos"), wait)(timeout="5s")


def test_a_batch_of_nothing_is_refused(client):
    with pytest.raises(ValueError, match="a batch without jobs, and with neither then nor on_failure"):
        client.batch([])
    with pytest.raises(ValueError, match="a batch of raw jobs needs a queue"):
        client.batch([], then=Ring(body=b"dong"))


def test_an_option_that_is_wrong_is_refused_before_anything_is_enqueued(local_server):
    with Client(local_server.address) as client:
        for options in ({"on_success": Complain()}, {"attempts": 0}):
            with pytest.raises((TypeError, ValueError)):
                client.batch(photos("cat.jpg"), **options)
        assert client.queue_names() == set()


def test_what_follows_keeps_the_options_of_its_class(local_server):
    with Client(local_server.address) as client:
        handle = client.batch([], then=Publish(album="pets"))
        assert handle.descriptor.startswith("albums:"), "where workers know its class"
        body = handle.status(include_body=True).body
    assert b'"priority":2,"attempts":7,"key":"pets","in_order":true' in body


def test_options_are_those_of_the_jobs(client):
    handle = client.batch(photos("odd.jpg"), then=Publish(album="pets"), on_failure=Complain(), attempts=1)
    assert handle.result(0) == (0, 1)
    assert done == ["complain"]


def test_the_jobs_are_children_of_the_batch_and_cancelled_with_it(local_server):
    with Client(local_server.address) as client:
        handle = client.batch(photos("cat.jpg", "dog.jpg", "cow.jpg"), then=Publish(album="pets"), batch_size=2)
        children = client.scan("photos", JobState.PENDING).jobs
        told = sorted((info.parent.descriptor, info.parent.name, info.parent.position) for info in children)
        assert told == [(handle.descriptor, MESSAGE_NAME, position) for position in range(3)]
        assert handle.cancel()
        assert client.count("photos", JobState.FAILED) == 3
        with pytest.raises(JobWasCancelled):
            handle.result(10)


def test_nothing_follows_a_batch_that_was_cancelled_itself(local_server):
    with Client(local_server.address) as client:
        assert client.batch(photos("cat.jpg"), then=Publish(album="pets"), on_failure=Complain()).cancel()
    local_server.run_worker(Resize, Publish, Complain)
    assert done == []


def test_another_program_gets_the_outcome_in_its_type(client):
    handle = client.batch(photos("cat.jpg", "broken.jpg"))
    assert client.handle(handle.descriptor, Batch).result(0).failed == 1


def test_of_a_batch_that_is_refused_nothing_is_left_to_run(local_server):
    with Client(local_server.address) as client:
        with pytest.raises(EnqueueRejected):
            client.batch(photos("cat.jpg", "x" * 2_000_000), then=Publish(album="large"), batch_size=1)
        assert client.count("photos", JobState.PENDING) == 0
        [batch] = client.scan("albums", JobState.FAILED).jobs
        assert batch.is_cancelled


def test_jobs_that_do_not_fit_into_one_call_take_several(local_server):
    with Client(local_server.address) as client:
        handle = client.batch(photos(*["x" * 900_000] * 20), then=Publish(album="large"))
        assert client.count("photos", JobState.PENDING) == 20
        assert handle.cancel()


def test_a_batch_is_cancelled_although_its_task_is_cancelled_again_and_again(local_server):
    """As anyio does, and with it FastAPI, until the task has ended."""

    async def scenario():
        async with AsyncClient(local_server.address) as client:
            execute, at_last, calls = client._execute, asyncio.Event(), []

            async def hang_at_last(call):
                calls.append(call)
                if len(calls) == 3:
                    client._pool.close()  # this call has the only connection
                    at_last.set()
                    await asyncio.Event().wait()
                return await execute(call)

            client._execute = hang_at_last
            task = asyncio.create_task(client.batch(photos("cat.jpg", "dog.jpg"), batch_size=1))
            await at_last.wait()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            client._execute = execute
            async with asyncio.timeout(20):
                while await client.count("photos", JobState.FAILED) < 2:  # the batch, and the job that was stored
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_the_asyncio_client_enqueues_batches_too(local_server):
    async def scenario():
        async with AsyncClient(local_server.address) as client:
            handle = await client.batch(photos("cat.jpg"), then=Publish(album="pets"))
            return await handle.cancel()

    assert asyncio.run(scenario())


@pytest.fixture
def batch_with_lost_answer(local_server):
    """A proxy that has the batch's own job stored, and then calls a function instead of passing on the answer."""
    with contextlib.closing(LossyProxy(int(local_server.address.rpartition(":")[2]))) as proxy:

        def interrupt_by(interrupt):
            proxy.lose(b"pinlater.batch", before_cut=interrupt)
            return f"127.0.0.1:{proxy.port}"

        yield interrupt_by


async def only_batch_is_cancelled(address):
    async with AsyncClient(address) as client:
        [batch] = (await client.scan("albums", JobState.FAILED)).jobs
        return batch.is_cancelled and await client.queue_names() == {"albums"}


def test_a_batch_that_is_cancelled_before_its_own_enqueue_is_answered_waits_for_nothing(
    local_server, batch_with_lost_answer
):
    async def scenario():
        loop, is_cancelled = asyncio.get_running_loop(), threading.Event()

        def cancel():
            task.cancel()
            is_cancelled.set()

        def interrupt():
            loop.call_soon_threadsafe(cancel)
            assert is_cancelled.wait(20)

        async with AsyncClient(batch_with_lost_answer(interrupt)) as client:
            task = asyncio.create_task(client.batch(photos("cat.jpg"), then=Publish(album="pets")))
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scenario())
    assert asyncio.run(only_batch_is_cancelled(local_server.address))


def test_a_batch_that_is_interrupted_before_its_own_enqueue_is_answered_waits_for_nothing(
    local_server, batch_with_lost_answer
):
    is_interrupted = threading.Event()

    def handle(*_):
        is_interrupted.set()
        raise KeyboardInterrupt

    def interrupt():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        assert is_interrupted.wait(20)

    before = signal.signal(signal.SIGINT, handle)
    try:
        with Client(batch_with_lost_answer(interrupt)) as client, pytest.raises(KeyboardInterrupt):
            client.batch(photos("cat.jpg"), then=Publish(album="pets"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert asyncio.run(only_batch_is_cancelled(local_server.address))


def test_a_batch_that_is_dropped_with_its_event_loop_complains_of_nothing(local_server):
    async def scenario():
        async with AsyncClient(local_server.address) as client:
            for steps in range(1, 6):
                batch = client.batch(photos("cat.jpg", "dog.jpg", "cow.jpg"), batch_size=1)
                with contextlib.suppress(StopIteration):  # raised when it is done
                    for _ in range(steps):
                        future = batch.send(None)
                        while not future.done():
                            await asyncio.sleep(0.001)
                        future._asyncio_future_blocking = False  # as a task does
                batch.close()  # as whoever drops it does; raises RuntimeError if it awaits something

    asyncio.run(scenario())


DAY = 86_400


@pytest.fixture
def run_all(local_server):
    return lambda: local_server.run_worker(Resize, Publish, queues=["albums", "photos"])


def stored_by_a_client_that_was_stopped(server, job, children):
    """Store what a client has stored of a batch that was stopped when so many of its jobs were stored."""
    client = server.client(Resize, Publish)
    descriptor = client.enqueue(job, queue="albums").descriptor
    for part in parts(children, descriptor, encoder({}), 500):
        client._execute(client._calls.enqueue_structs(part.queue, part.jobs))
    return client.handle(descriptor, Batch)


def test_a_second_copy_of_a_batch_waits_for_a_day_and_nothing_follows(local_server, run_all):
    """It is stored if the shard that has the first one does not answer when the client repeats the call."""
    twin = stored_by_a_client_that_was_stopped(local_server, batch_job(1, Publish(album="pets"), None), [])
    handle = local_server.client(Resize).batch(photos("cat.jpg"), then=Publish(album="pets"))
    run_all()
    assert handle.result(0) == (1, 0)
    local_server.advance(DAY - 1)
    assert run_all() == []
    local_server.advance(2)
    run_all()
    with pytest.raises(JobFailed, match="not told within a day that its jobs are stored"):
        twin.result(0)
    assert done == ["cat.jpg", "publish pets 7"]


def test_a_batch_whose_client_was_stopped_after_the_last_job_ends_as_if_it_was_not(local_server, run_all):
    handle = stored_by_a_client_that_was_stopped(
        local_server, batch_job(2, Publish(album="pets"), None), photos("cat.jpg", "dog.jpg")
    )
    run_all()
    local_server.advance(DAY + 1)
    run_all()
    assert handle.result(0) == (2, 0)
    assert done == ["cat.jpg", "dog.jpg", "publish pets 7"]


def test_a_batch_that_is_stored_waits_for_its_jobs_without_a_limit(local_server, run_all):
    handle = local_server.client(Resize, Publish).batch(photos("cat.jpg"), then=Publish(album="pets"), delay=9 * DAY)
    run_all()
    local_server.advance(9 * DAY + 1)
    run_all()
    assert handle.result(0) == (1, 0)
