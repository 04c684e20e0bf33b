"""The clients against a real server."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinlater import AsyncClient, Client, Job, JobState
from pinlater.client import Ack, Acks, Checkpoint, NewJob
from pinlater.errors import ClientError, PasswordInvalid, QueueNameInvalid, QueueNotFound, UnknownError
from tests.support.server import ServerProcess


class Ping(Job, queue="pings"):
    number: int = 0


class Pong(Job, queue="pongs"):
    number: int = 0


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        for name in client.queue_names():
            client.delete_queue(name, "open sesame")
        client.create_queue("pings")
        yield client


def test_queues(client):
    client.create_queue("pongs")
    client.create_queue("pongs")
    assert client.queue_names() == {"pings", "pongs"}
    with pytest.raises(PasswordInvalid):
        client.delete_queue("pongs", "guessed")
    client.delete_queue("pongs", "open sesame")
    assert client.queue_names() == {"pings"}
    with pytest.raises(QueueNameInvalid):
        client.create_queue("no-dash")
    with pytest.raises(QueueNotFound):
        client.count("pongs", JobState.PENDING)


def test_the_life_of_a_job(client):
    handle = client.enqueue(Ping(number=7), attempts=3, status="new ")
    assert handle.status(include_body=True).body == b'{"job":"Ping","number":7}'
    (job,) = client.dequeue_jobs("pings", 10, lease=60)
    assert (job.descriptor, job.attempts_allowed, job.attempts_remaining) == (handle.descriptor, 3, 3)
    assert client.source in job.claim
    client.checkpoint("pings", [Checkpoint(job.descriptor, job.claim, body=b"\xffbytes")])
    client.ack("pings", failed=[Ack(job.descriptor, job.claim, "failed once")])
    (again,) = client.dequeue_jobs("pings", 10, wait=5)
    assert again.body == b"\xffbytes"
    assert again.attempts_remaining == 2
    client.ack("pings", succeeded=[Ack(job.descriptor, job.claim)])  # the old claim counts for nothing
    assert handle.status().state is JobState.IN_PROGRESS
    client.ack("pings", succeeded=[Ack(again.descriptor, again.claim)])
    assert handle.wait(5).state is JobState.SUCCEEDED


@pytest.mark.parametrize("delay", [None, 60])
def test_a_job_that_waits_is_cancelled_and_not_handed_out(client, delay):
    handle = client.handle(client.enqueue(Ping(number=1), delay=delay).descriptor)
    assert handle.cancel()
    assert handle.status().state is JobState.FAILED
    assert client.dequeue_jobs("pings", 10) == []


def test_a_job_that_was_cancelled_while_it_waited_is_not_handed_out(client):
    handles = [client.enqueue(Ping(number=number)) for number in range(200)]
    with ThreadPoolExecutor(2) as threads:
        claiming = threads.submit(lambda: [job for _ in range(40) for job in client.dequeue_jobs("pings", 5)])
        cancelled = [handle.cancel() for handle in reversed(handles)]
        claimed = {job.descriptor for job in claiming.result()}
    assert all(cancelled)
    states = {handle.descriptor: handle.status().state for handle in handles}
    assert {name for name, state in states.items() if state is JobState.IN_PROGRESS} == claimed
    assert set(states.values()) <= {JobState.IN_PROGRESS, JobState.FAILED}


def test_a_handle_needs_a_descriptor(client):
    with pytest.raises(UnknownError, match="malformed job descriptor"):
        client.handle("pings")


def test_acks_ride_on_a_dequeue_and_final_failures_stay(client):
    first, second = client.enqueue_jobs("pings", [NewJob(b"1"), NewJob(b"2")])
    jobs = client.dequeue_jobs("pings", 2)
    acks = Acks([Ack(first, jobs[0].claim)], [Ack(second, jobs[1].claim, final=True)])
    assert client.dequeue_jobs("pings", 2, acks=acks) == []
    found = client.lookup([first, second])
    assert [found[name].state for name in (first, second)] == [JobState.SUCCEEDED, JobState.FAILED]
    assert client.retry_failed("pings") == 1
    assert client.count("pings", JobState.PENDING) == 1


def test_chosen_jobs_are_retried_and_deleted(client):
    names = client.enqueue_jobs("pings", [NewJob(b"x", attempts=1) for _ in range(4)])
    client.ack("pings", failed=[Ack(job.descriptor, job.claim) for job in client.dequeue_jobs("pings", 4)])
    assert client.retry_these("pings", names[1:3], attempts=2) == 2
    assert client.delete_these("pings", names, JobState.FAILED) == 2
    assert set(client.lookup(names)) == set(names[1:3])
    client.create_queue("others")
    for call in (client.retry_these, lambda *given: client.delete_these(*given, JobState.FAILED)):
        with pytest.raises(UnknownError, match="does not belong to queue others"):
            call("others", names[1:2])


def test_delays_and_moments(client):
    client.enqueue(Ping(number=1), delay=3600)
    client.enqueue(Ping(number=2), run_at=time.time() + 3600)
    client.enqueue(Ping(number=3), run_at=time.time() - 3600)
    assert client.count("pings", JobState.PENDING) == 1
    assert client.count("pings", JobState.PENDING, future=True) == 2
    assert [job.body for job in client.dequeue_jobs("pings", 10)] == [b'{"job":"Ping","number":3}']


def test_scans_page_through_everything(client):
    client.enqueue_many(Ping(number=number) for number in range(257))
    found = [info.descriptor for info in client.scan_all("pings", JobState.PENDING, page_size=100)]
    assert len(found) == len(set(found)) == 257
    page = client.scan("pings", JobState.PENDING, limit=300, body_regex='"number":25[0-9]')
    assert len(page.jobs) == 7
    assert client.delete_jobs("pings", JobState.PENDING, limit=200) == 200
    assert client.count("pings", JobState.PENDING) == 57


def test_a_long_poll_gets_the_job_at_once(client, server):
    found = []

    def wait():
        with Client(server.address) as other:
            found.extend(other.dequeue_jobs("pings", 1, wait=20))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    client.enqueue(Ping())
    thread.join(15)
    assert len(found) == 1
    assert time.monotonic() - started < 10


def test_one_dequeue_asks_several_queues(client):
    client.create_queue("pongs")
    client.enqueue(Pong())
    (job,) = client.dequeue_jobs("pings", 1, other_queues=["pongs"])
    assert job.descriptor.startswith("pongs:")


def test_claims_are_released_by_source(client):
    client.enqueue_many(Ping(number=number) for number in range(10))
    assert len(client.dequeue_jobs("pings", 4)) == 4
    assert client.release_claims("pings", "somebody:else:1") == 0
    assert client.release_claims("pings", client.source) == 4
    assert client.count("pings", JobState.PENDING) == 10


def test_what_the_server_does_not_take_is_an_error_of_the_caller(client):
    with pytest.raises(ClientError):
        client.enqueue_jobs("pings", [NewJob(b"x" * 2_000_000)])
    with pytest.raises(ClientError):
        client.enqueue_jobs("pings", [NewJob(b"x", priority=127)])
    assert client.count("pings", JobState.PENDING) == 0


def test_many_jobs_of_two_queues(client):
    client.create_queue("pongs")
    jobs = ((Ping if number % 3 else Pong)(number=number) for number in range(20_000))
    assert client.enqueue_many(jobs) == 20_000
    assert client.count("pings", JobState.PENDING) == 13_333
    assert client.count("pongs", JobState.PENDING) == 6_667


@pytest.mark.usefixtures("client")
def test_the_asyncio_client(server):
    async def use():
        async with AsyncClient(server.address, connections=8) as mine:
            waiting = asyncio.create_task(mine.dequeue_jobs("pings", 1, wait=20))
            handles = await asyncio.gather(*(mine.enqueue(Ping(number=number)) for number in range(100)))
            (job,) = await waiting
            await mine.ack("pings", [Ack(job.descriptor, job.claim)])
            stored = await mine.enqueue_many(Ping(number=number) for number in range(1000))
            infos = [info async for info in mine.scan_all("pings", JobState.PENDING)]
            late = await mine.enqueue(Ping(number=1), delay=600)
            assert await mine.handle(late.descriptor).run_now()
            assert not await late.run_now()
            assert await mine.handle(late.descriptor).cancel()
            assert await late.cancel(), "it is"
            state = (await next(handle for handle in handles if handle.descriptor == job.descriptor).wait(5)).state
            return stored, len(infos), state

    assert asyncio.run(use()) == (1000, 1099, JobState.SUCCEEDED)


def test_a_forked_child_and_its_parent_both_work(client):
    client.enqueue(Ping(number=1))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            client.enqueue(Ping(number=2))
            status = 0
        finally:
            os._exit(status)
    client.enqueue(Ping(number=3))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert client.count("pings", JobState.PENDING) == 3


def test_a_bulk_load_survives_a_killed_server(tmp_path):
    server = ServerProcess(tmp_path)
    started = threading.Event()

    def jobs():
        for number in range(30_000):
            if number == 12_000:
                server.kill()
                threading.Thread(target=_start_again, args=(server, started)).start()
            yield Ping(number=number)

    try:
        with Client(server.address, timeout=40, retries=100) as client:
            client.create_queue("pings")
            assert client.enqueue_many(jobs(), batch_size=500) == 30_000
            assert started.wait(30)
            found = {info.body for info in _with_bodies(client)}
    finally:
        server.stop()
    assert found == {b'{"job":"Ping","number":%d}' % number for number in range(30_000)}


def _start_again(server, started):
    server.start()
    started.set()


def _with_bodies(client):
    while jobs := client.dequeue_jobs("pings", 1000):
        yield from jobs
        client.ack("pings", [Ack(job.descriptor, job.claim) for job in jobs])
