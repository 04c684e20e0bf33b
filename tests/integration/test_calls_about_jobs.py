"""Calls of an independent client about results, messages and cancellation, and look-ups that wait."""

import threading
import time

import pytest

from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.support.apache import DeclaredError
from tests.support.server import ServerProcess

LONG_MS = 20_000


@pytest.fixture
def waiter(shared_server):
    with shared_server.client("waiter") as waiter:
        yield waiter


def put(client, queue, **fields):
    return client.enqueueJobs(queueName=queue, jobs=[{"body": b"x", **fields}])["jobDescriptors"][0]


def claim(client, queue):
    """Claim a job; return its descriptor and claim."""
    found = client.dequeueJobs(queueName=queue, limit=1)
    [(name, metadata)] = found["jobMetadata"].items()
    return {"jobDescriptor": name, "claimDescriptor": metadata["claimDescriptor"]}


def look(client, name, **fields):
    return client.lookupJobs(jobDescriptors=[name], **fields).get(name)


def park(waiter, method, **request):
    """Send a call that waits; the next call of another connection may come before it."""
    waiter.send(method, {"context": {"source": "waiter"}, "request": request})


def await_parked(waiter, method="lookupJobs"):
    """Return once an answer has come; it must be the end of the wait, not a time-out."""
    began = time.monotonic()
    _, answer = waiter.read(method)
    assert time.monotonic() - began < LONG_MS / 1000
    return answer


def test_a_job_that_waits_is_cancelled_at_once(client, queue):
    name = put(client, queue)
    assert client.cancelJobs(queueName=queue, jobDescriptors=[name], appendCustomStatus="by ada") == 1
    job = look(client, name)
    assert (job["jobState"], job["isCancelled"], job["customStatus"]) == (FAILED, True, "by ada")
    assert "jobs" not in client.dequeueJobs(queueName=queue, limit=1)
    assert client.cancelJobs(queueName=queue, jobDescriptors=[f"{queue}:s1:p1:999999"]) == 0
    with pytest.raises(DeclaredError, match="does not belong"):
        client.cancelJobs(queueName=queue, jobDescriptors=["other:s1:p1:1"])


def test_a_job_that_runs_is_asked_to_stop_and_never_runs_again(client, queue):
    name = put(client, queue, numAttemptsAllowed=5)
    held = claim(client, queue)
    assert client.cancelJobs(queueName=queue, jobDescriptors=[name]) == 1
    job = look(client, name)
    assert (job["jobState"], job["isCancelled"]) == (IN_PROGRESS, True)
    with pytest.raises(DeclaredError, match="asked to stop") as told:
        client.checkpointJobs(queueName=queue, requests=[held], tellStale=True)
    assert told.value.cancelled_descriptors == [name]
    client.checkpointJobs(queueName=queue, requests=[held])  # as an original client does
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[held])
    job = look(client, name)
    assert (job["jobState"], job["isCancelled"]) == (FAILED, True)


def test_it_can_still_succeed_with_a_result(client, queue):
    name = put(client, queue)
    held = claim(client, queue)
    client.cancelJobs(queueName=queue, jobDescriptors=[name])
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{**held, "result": b"\xff\0"}])
    assert "result" not in look(client, name)
    job = look(client, name, includeResult=True)
    assert (job["jobState"], job["result"]) == (SUCCEEDED, b"\xff\0")


def test_an_ack_may_say_that_the_job_was_cancelled(client, queue):
    name = put(client, queue, numAttemptsAllowed=5)
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[{**claim(client, queue), "isCancelled": True}])
    job = look(client, name)
    assert (job["jobState"], job["isCancelled"]) == (FAILED, True)


def test_who_waits_hears_of_a_job_that_is_to_stop(client, queue, waiter):
    since = waiter.getCancelledJobs(sinceTimestampMillis=0)["serverTimestampMillis"]
    name = put(client, queue)
    claim(client, queue)
    park(waiter, "getCancelledJobs", sinceTimestampMillis=since, waitMillis=LONG_MS)
    client.cancelJobs(queueName=queue, jobDescriptors=[name])
    answer = await_parked(waiter, "getCancelledJobs")
    assert answer["jobDescriptors"] == [name]
    later = answer["serverTimestampMillis"]
    assert waiter.getCancelledJobs(sinceTimestampMillis=later)["jobDescriptors"] == []


def test_messages_are_kept_in_order_until_they_are_read(client, queue):
    name = put(client, queue)
    for number in ("a", "b", "b", "c"):
        sent = {"jobDescriptor": name, "name": "approval", "id": number, "payload": b"\xff" + number.encode()}
        assert client.sendMessage(**sent) is True
    found = client.readMessages(jobDescriptor=name, name="approval", after=1, limit=2)
    assert [(one["number"], one["id"], one["payload"]) for one in found] == [(2, "b", b"\xffb"), (3, "c", b"\xffc")]
    assert client.readMessages(jobDescriptor=name, name="other") == []
    client.cancelJobs(queueName=queue, jobDescriptors=[name])
    assert client.sendMessage(jobDescriptor=name, name="approval", id="d", payload=b"") is False


def test_a_child_tells_its_parent_and_wakes_it(client, queue):
    parent = put(client, queue)
    held = claim(client, queue)
    child = put(client, queue, parentDescriptor=parent, parentMessageName="resize", parentPosition=3)
    waits = [{"messageName": "resize", "count": 1}]
    sleep = {**held, "moveToPending": True, "runAfterTimestampMillis": 2**52, "waitsFor": waits}
    client.checkpointJobs(queueName=queue, requests=[sleep])
    assert look(client, parent)["waitsFor"] == waits
    told = look(client, child)
    assert (told["parentDescriptor"], told["parentMessageName"], told["parentPosition"]) == (parent, "resize", 3)
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{**claim(client, queue), "result": b"done"}])
    assert claim(client, queue)["jobDescriptor"] == parent
    [message] = client.readMessages(jobDescriptor=parent, name="resize")
    assert (message["id"], message["kind"], message["payload"]) == ("3", 1, b"done")


def test_a_parent_is_cancelled_with_its_children_and_gets_no_more(client, queue):
    parent = put(client, queue)
    child = put(client, queue, parentDescriptor=parent, parentMessageName="resize", parentPosition=0)
    assert client.cancelJobs(queueName=queue, jobDescriptors=[parent]) == 2
    assert look(client, child)["customStatus"] == "cancelled with its parent\n"
    with pytest.raises(DeclaredError) as refused:
        put(client, queue, parentDescriptor=parent, parentMessageName="resize", parentPosition=1)
    assert refused.value.code == 430


# Look-ups that wait


def test_a_look_up_waits_for_the_end_of_all_its_jobs(client, queue, waiter):
    first, second = put(client, queue), put(client, queue)
    park(waiter, "lookupJobs", jobDescriptors=[first, second], waitMillis=LONG_MS, includeResult=True)
    one, two = claim(client, queue), claim(client, queue)
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{**one, "result": b"1"}])
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[{**two, "isFinal": True}])
    found = await_parked(waiter)
    assert found[one["jobDescriptor"]]["result"] == b"1"
    assert found[two["jobDescriptor"]]["jobState"] == FAILED


def test_jobs_that_have_ended_or_are_gone_are_answered_at_once(client, queue, waiter):
    ended = put(client, queue)
    client.cancelJobs(queueName=queue, jobDescriptors=[ended])
    park(waiter, "lookupJobs", jobDescriptors=[ended, f"{queue}:s1:p1:999999"], waitMillis=LONG_MS)
    assert list(await_parked(waiter)) == [ended]


def test_another_call_on_the_connection_ends_the_wait(client, queue, waiter):
    name = put(client, queue)
    park(waiter, "lookupJobs", jobDescriptors=[name], waitMillis=LONG_MS)
    waiter.send("getQueueNames", {"context": {"source": "waiter"}})
    assert await_parked(waiter)[name]["jobState"] == PENDING
    assert queue in waiter.read("getQueueNames")[1]


def test_a_server_that_stops_answers_those_who_wait(tmp_path):
    with ServerProcess(tmp_path / "server") as server, server.client() as client, server.client() as other:
        client.createQueue(name="q")
        name = put(client, "q")
        park(client, "lookupJobs", jobDescriptors=[name], waitMillis=LONG_MS)
        park(other, "getCancelledJobs", sinceTimestampMillis=0, waitMillis=LONG_MS)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert await_parked(client)[name]["jobState"] == PENDING
        assert await_parked(other, "getCancelledJobs")["jobDescriptors"] == []
        stopping.join()
