"""Handles against a real server: results, cancellation, events."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

import pytest

from pinlater import AsyncClient, Client, Job, JobState, RawJob
from pinlater.client import Ack
from pinlater.client.waits import event_in
from pinlater.errors import (
    BodyInvalid,
    EnqueueRejected,
    JobFailed,
    JobGone,
    JobUnfinished,
    JobWasCancelled,
    ResultInvalid,
)
from pinlater.jobs.events import event_name
from pinlater.model.attempts import Checkpoint
from pinlater.model.messages import MessageWait


@dataclass
class Bill:
    total: int
    due: date


class MakeBill(Job[Bill], queue="bills"):
    customer: int = 0


class Remind(Job, queue="bills"):
    pass


class Fetch(RawJob, queue="fetches"):
    pass


BILL = b'{"total":12,"due":"2026-12-24"}'


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        for name in client.queue_names():
            client.delete_queue(name, "open sesame")
        yield client


def run(client, queue="bills", **ack):
    """Claim a job and ack it; return its descriptor."""
    (job,) = client.dequeue_jobs(queue, 1, wait=10)
    status, is_final = ack.pop("failure", ""), True
    if status:
        client.ack(queue, failed=[Ack(job.descriptor, job.claim, status, final=is_final)])
    else:
        client.ack(queue, succeeded=[Ack(job.descriptor, job.claim, **ack)])
    return job.descriptor


def test_a_result_has_the_type_that_its_class_declares(client):
    handle = client.enqueue(MakeBill(customer=7))
    run(client, result=BILL)
    assert handle.result(timeout=10) == Bill(12, date(2026, 12, 24))
    assert handle.result() == handle.result(), "it stays as long as the job"


def test_another_program_reads_a_result_with_and_without_the_class(client):
    descriptor = client.enqueue(MakeBill()).descriptor
    run(client, result=BILL)
    assert client.handle(descriptor, MakeBill).result(1) == Bill(12, date(2026, 12, 24))
    assert client.handle(descriptor).result(1) == {"total": 12, "due": "2026-12-24"}


def test_a_job_that_declares_no_result_has_none(client):
    handle = client.enqueue(Remind())
    run(client)
    assert handle.result(10) is None


def test_the_result_of_a_raw_job_is_bytes(client):
    handle = client.enqueue(Fetch(body=b"url"))
    run(client, "fetches", result=b"\xff\x00")
    assert handle.result(10) == b"\xff\x00"


def test_a_result_that_does_not_fit_its_class_says_so(client):
    handle = client.enqueue(MakeBill())
    run(client, result=b'{"total":"twelve"}')
    with pytest.raises(ResultInvalid, match="MakeBill"):
        handle.result(10)


def test_who_waits_gets_the_result_when_the_job_ends(client):
    handles = [client.enqueue(MakeBill()) for _ in range(5)]
    with ThreadPoolExecutor(len(handles)) as threads:
        results = [threads.submit(handle.result, 30) for handle in handles]
        for _ in handles:
            run(client, result=BILL)
        assert {future.result().total for future in results} == {12}


def test_the_result_of_a_failed_job_is_an_error_that_names_the_reason(client):
    handle = client.enqueue(MakeBill())
    run(client, failure="[attempt 1/1 2026-11-23T02:00:00Z web1 42 0.50 s] OSError: no paper\n")
    with pytest.raises(JobFailed, match=r"MakeBill bills:s\w+:p1:\d+ failed: OSError: no paper") as caught:
        handle.result(10)
    assert caught.value.descriptor == handle.descriptor
    assert [attempt.host for attempt in caught.value.failed_attempts] == ["web1"]


def test_the_result_of_a_job_that_is_not_there(client):
    handle = client.enqueue(MakeBill(), delay=60)
    client.delete_these("bills", [handle.descriptor], JobState.PENDING)
    with pytest.raises(JobGone):
        handle.result(10)


def test_a_job_that_does_not_end_in_time_is_left_as_it_is(client):
    handle = client.enqueue(MakeBill(), delay=60)
    with pytest.raises(JobUnfinished, match="still PENDING"):
        handle.result(0.05)
    assert handle.status().state is JobState.PENDING


def test_a_job_that_waits_for_an_event_says_so_to_who_waits_for_it(client):
    handle = client.enqueue(Remind())
    sleep(client, "approval")
    with pytest.raises(JobUnfinished, match="waits for event approval"):
        handle.result(0.05)


def sleep(client, event, number=1):
    """Claim a job and let it wait for an event."""
    (job,) = client.dequeue_jobs("bills", 1, wait=10)
    far = 2**53
    wait = MessageWait(event_name(event), number)
    client.checkpoint(
        "bills",
        [Checkpoint(job.descriptor, job.claim, move_to_pending=True, run_after_ms=far, waits_for=[wait])],
    )


# Cancellation


def test_a_waiting_job_is_cancelled_at_once(client):
    handle = client.enqueue(MakeBill(), delay=60)
    assert handle.cancel("wrong customer")
    assert handle.cancel(), "it is"
    info = handle.status()
    assert (info.state, info.is_cancelled) == (JobState.FAILED, True)
    with pytest.raises(JobWasCancelled, match="wrong customer"):
        handle.result(10)


def test_a_running_job_is_asked_to_stop_and_may_succeed(client):
    handle = client.enqueue(MakeBill())
    (job,) = client.dequeue_jobs("bills", 1)
    assert handle.cancel()
    info = handle.status()
    assert (info.state, info.is_cancelled) == (JobState.IN_PROGRESS, True)
    client.ack("bills", succeeded=[Ack(job.descriptor, job.claim, result=BILL)])
    assert handle.result(10).total == 12
    assert not handle.cancel(), "it has ended"


def test_who_waits_for_a_job_hears_that_it_is_cancelled(client):
    handle = client.enqueue(MakeBill(), delay=60)
    asking = threading.Event()

    def cancel():
        asking.wait()
        handle.cancel()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(cancel)
        asking.set()
        with pytest.raises(JobWasCancelled):
            handle.result(30)


def test_a_job_that_is_not_there_is_not_cancelled(client):
    client.create_queue("bills")
    assert not client.handle("bills:s1:p1:99999999").cancel()


def test_a_cancelled_job_that_is_retried_by_hand_runs(client):
    handle = client.enqueue(MakeBill(), delay=60)
    handle.cancel()
    assert client.retry_these("bills", [handle.descriptor]) == 1
    run(client, result=BILL)
    assert handle.result(10).total == 12


# Events


def test_an_event_wakes_the_job_that_waits_for_it(client):
    handle = client.enqueue(Remind())
    sleep(client, "approval")
    (wait,) = handle.status().waits_for
    assert (event_in(wait.name), wait.number) == ("approval", 1)
    assert client.dequeue_jobs("bills", 1) == []
    assert handle.send("approval", {"by": "ada"})
    (job,) = client.dequeue_jobs("bills", 1, wait=10)
    assert job.descriptor == handle.descriptor
    (message,) = client.read_messages(job.descriptor, event_name("approval"))
    assert (message.number, message.payload) == (1, b'{"by":"ada"}')


def test_an_event_with_an_id_is_there_once(client):
    handle = client.enqueue(Remind(), delay=60)
    assert [handle.send("paid", 1, id="invoice 7"), handle.send("paid", 2, id="invoice 7"), handle.send("paid", 3)] == (
        [True] * 3
    )
    found = client.read_messages(handle.descriptor, event_name("paid"))
    assert [message.payload for message in found] == [b"1", b"3"]


def test_a_job_that_has_ended_gets_no_event(client):
    handle = client.enqueue(Remind())
    run(client)
    assert not handle.send("approval")
    assert not client.handle("bills:s1:p1:99999999").send("approval")


def test_an_event_that_cannot_be_sent_is_refused(client):
    handle = client.enqueue(Remind(), delay=60)
    with pytest.raises(BodyInvalid, match="approval"):
        handle.send("approval", object())
    with pytest.raises(EnqueueRejected, match="characters"):
        handle.send("x" * 300)


# asyncio


def test_a_handle_of_the_asyncio_client_is_awaited(server, client):
    async def scenario():
        async with AsyncClient(server.address) as aclient:
            handle = await aclient.enqueue(MakeBill())
            waiting = asyncio.create_task(handle.result(timeout=30))
            await asyncio.to_thread(run, client, result=BILL)
            assert await waiting == await handle
            other = await aclient.enqueue(Remind(), delay=60)
            assert await other.send("approval", True)
            assert await other.cancel()
            with pytest.raises(JobWasCancelled):
                await other
            return await handle

    assert asyncio.run(scenario()) == Bill(12, date(2026, 12, 24))
