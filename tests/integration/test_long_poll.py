"""Dequeues that wait: what wakes them, what ends them, and that no job is lost on the way."""

import threading
import time

import pytest

from tests.support.apache import DeclaredError
from tests.support.server import PASSWORD, wait_for

LONG_MS = 20_000


def wait_request(queue, wait_ms=LONG_MS, limit=10, **fields):
    request = {"queueName": queue, "limit": limit, "waitMillis": wait_ms, **fields}
    return {"context": {"source": "waiter"}, "request": request}


@pytest.fixture
def waiter(shared_server):
    with shared_server.client("waiter") as waiter:
        yield waiter


def put(client, queue, body=b"x", **fields):
    return client.enqueueJobs(queueName=queue, jobs=[{"body": body, **fields}])["jobDescriptors"]


def jobs_of(waiter):
    return list(waiter.read("dequeueJobs")[1].get("jobs", {}))


def park(waiter, queue, **options):
    """Send a dequeue that waits, and give it the time to arrive."""
    waiter.send("dequeueJobs", wait_request(queue, **options))
    time.sleep(0.05)


def in_ms(ms):
    return int(time.time() * 1000) + ms


def test_without_a_job_it_lasts_as_long_as_asked(waiter, queue):
    began = time.monotonic()
    park(waiter, queue, wait_ms=300)
    assert jobs_of(waiter) == []
    assert time.monotonic() - began >= 0.29  # timers count whole milliseconds


def test_a_job_that_is_there_is_answered_at_once(client, waiter, queue):
    names = put(client, queue)
    park(waiter, queue)
    assert jobs_of(waiter) == names


def test_a_call_right_behind_it_is_answered_at_once(waiter, queue):
    began = time.monotonic()
    for _ in range(20):  # whether both are read together, or the second while the first looks for jobs
        waiter.send("dequeueJobs", wait_request(queue))
        waiter.send("getQueueNames", {"context": {"source": "waiter"}})
        assert jobs_of(waiter) == []
        waiter.read("getQueueNames")
    assert time.monotonic() - began < LONG_MS / 1000


def test_it_wakes_on_an_enqueue(client, waiter, queue):
    park(waiter, queue)
    assert put(client, queue) == jobs_of(waiter)


def test_it_wakes_on_an_enqueue_to_another_of_its_queues(client, waiter, queue):
    client.createQueue(name=queue + "_other")
    park(waiter, queue, otherQueueNames=[queue + "_other"])
    assert put(client, queue + "_other") == jobs_of(waiter)


def test_it_wakes_when_a_scheduled_job_falls_due(client, waiter, queue):
    due = in_ms(400)
    names = put(client, queue, runAfterTimestampMillis=due)
    park(waiter, queue)
    assert jobs_of(waiter) == names
    assert in_ms(0) >= due - 50


def test_it_wakes_when_a_job_is_scheduled_meanwhile(client, waiter, queue):
    park(waiter, queue)
    due = in_ms(300)
    names = put(client, queue, runAfterTimestampMillis=due)
    assert jobs_of(waiter) == names
    assert in_ms(0) >= due - 50


def test_it_wakes_when_a_retry_falls_due(client, waiter, queue):
    (name,) = put(client, queue)
    client.dequeueJobs(queueName=queue, limit=1)
    park(waiter, queue)
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[{"jobDescriptor": name, "retryDelayMillis": 300}])
    assert jobs_of(waiter) == [name]


@pytest.mark.parametrize("way", ["release", "checkpoint", "retry", "expiry", "run now"])
def test_it_wakes_when_a_job_comes_back(client, waiter, queue, way):
    (name,) = put(client, queue, numAttemptsAllowed=3)
    client.dequeueJobs(queueName=queue, limit=1, **({"claimTimeoutMillis": 200} if way == "expiry" else {}))
    if way == "retry":
        client.ackDequeuedJobs(queueName=queue, jobsFailed=[{"jobDescriptor": name, "isFinal": True}])
    if way == "run now":
        client.ackDequeuedJobs(queueName=queue, jobsFailed=[{"jobDescriptor": name, "retryDelayMillis": 3_600_000}])
    park(waiter, queue)
    if way == "release":
        client.releaseClaims(queueName=queue, claimSource="apache")
    elif way == "checkpoint":
        client.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name, "moveToPending": True}])
    elif way == "retry":
        client.retryFailedJobs(queueName=queue)
    elif way == "run now":
        assert client.runJobsNow(queueName=queue, jobDescriptors=[name]) == 1
    assert jobs_of(waiter) == [name]


def test_another_call_on_the_connection_ends_it(waiter, queue):
    began = time.monotonic()
    park(waiter, queue)
    waiter.send("getQueueNames", {"context": {"source": "waiter"}})
    assert jobs_of(waiter) == []
    assert queue in waiter.read("getQueueNames")[1]
    assert time.monotonic() - began < LONG_MS / 1000


def test_a_deleted_queue_ends_it(client, waiter, queue):
    park(waiter, queue)
    client.deleteQueue(name=queue, password=PASSWORD)
    with pytest.raises(DeclaredError, match=queue):
        jobs_of(waiter)


def test_acks_on_board_do_not_wait(client, waiter, queue):
    (name,) = put(client, queue)
    client.dequeueJobs(queueName=queue, limit=1)
    park(waiter, queue, jobAckRequest={"queueName": queue, "jobsSucceeded": [{"jobDescriptor": name}]})
    wait_for(lambda: client.getJobCount(queueName=queue, jobState=2) == 1)
    assert put(client, queue) == jobs_of(waiter)


def test_a_waiter_that_leaves_takes_no_job_along(shared_server, client, queue):
    for _ in range(20):
        with shared_server.client("leaver") as leaver:
            park(leaver, queue)
        (name,) = put(client, queue)
        answer = client.dequeueJobs(queueName=queue, limit=1, waitMillis=LONG_MS)
        assert answer["jobMetadata"][name]["attemptsRemaining"] == 2
        client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": name}])


def test_a_leaving_waiter_leaves_the_job_to_the_next(shared_server, client, waiter, queue):
    with shared_server.client("leaver") as leaver:
        park(leaver, queue)
        park(waiter, queue)
    assert put(client, queue) == jobs_of(waiter)


def test_each_job_goes_to_one_of_many_waiters(shared_server, client, queue):
    found, lock = [], threading.Lock()

    def work():
        with shared_server.client("waiter") as waiter:
            while True:
                answer = waiter.send_and_read("dequeueJobs", wait_request(queue, 700, limit=3))
                with lock:
                    found.extend(answer.get("jobs", {}))
                    if len(found) >= 200:
                        return
                if not answer:
                    return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    names = [name for _ in range(200) for name in put(client, queue)]
    for thread in threads:
        thread.join(30)
    assert sorted(found) == sorted(names)
