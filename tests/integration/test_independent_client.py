"""The service as a client sees it that shares no code with it: all calls."""

import time

import pytest

from tests.integration.independent import (
    FAILED,
    IN_PROGRESS,
    NOT_FOUND,
    PENDING,
    SUCCEEDED,
    count,
    look,
    put,
    refused,
    take,
)
from tests.support.apache import STRUCTS, DeclaredError, TApplicationException
from tests.support.server import PASSWORD


def test_the_whole_life_of_a_job(client, queue):
    began = time.time() * 1000 - 1000
    (name,) = put(client, queue, b"\xff body", priority=2, numAttemptsAllowed=3, customStatus="new;")
    assert name.startswith(f"{queue}:s1:p2:")
    info = look(client, name)
    assert (info["jobState"], info["attemptsAllowed"], info["attemptsRemaining"]) == (PENDING, 3, 3)
    assert (info["body"], info["customStatus"], info["jobDescriptor"]) == (b"\xff body", "new;", name)
    assert "claimDescriptor" not in info
    for moment in ("createdAtTimestampMillis", "runAfterTimestampMillis", "updatedAtTimestampMillis"):
        assert began < info[moment] < began + 60_000

    shown = take(client, queue, dryRun=True)
    assert shown["jobs"] == {name: b"\xff body"}
    assert count(client, queue) == 1
    taken = take(client, queue)
    assert taken["jobs"] == {name: b"\xff body"}
    metadata = taken["jobMetadata"][name]
    assert (metadata["attemptsAllowed"], metadata["attemptsRemaining"]) == (3, 3)
    assert ":apache:" in metadata["claimDescriptor"]
    assert look(client, name)["claimDescriptor"] == metadata["claimDescriptor"]

    checkpoint = {"jobDescriptor": name, "newBody": b"\xfe half", "prependCustomStatus": "half;"}
    client.checkpointJobs(queueName=queue, requests=[checkpoint])
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[{"jobDescriptor": name, "appendCustomStatus": "oops;"}])
    info = look(client, name)
    assert (info["jobState"], info["attemptsRemaining"], info["customStatus"]) == (PENDING, 2, "half;new;oops;")

    assert take(client, queue)["jobs"] == {name: b"\xfe half"}
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": name}])
    assert [count(client, queue, state) for state in range(4)] == [0, 0, 1, 0]
    info = look(client, name, include_body=False)
    assert (info["jobState"], info["attemptsRemaining"]) == (SUCCEEDED, 2)
    assert "body" not in info
    assert take(client, queue).keys() == {"serverTimestampMillis"}
    assert client.deleteJobs(queueName=queue, jobState=SUCCEEDED, priority=2) == 1
    assert look(client, name) is None


def test_failed_jobs_are_retried_and_scanned(client, queue):
    names = put(client, queue, *[f"{n}".encode() for n in range(5)], numAttemptsAllowed=1)
    take(client, queue)
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[{"jobDescriptor": name} for name in names])
    assert count(client, queue, FAILED) == 5
    assert client.retryFailedJobs(queueName=queue, limit=2, attemptsToAllow=4) == 2
    assert count(client, queue) == 2
    scanned = client.scanJobs(queueName=queue, jobState=FAILED)
    assert {job["jobDescriptor"] for job in scanned["scannedJobs"]} == set(names[2:])
    assert scanned["continuation"] == "-1"


def test_acks_ride_on_dequeues(client, queue):
    first, second = put(client, queue, b"1", b"2")
    take(client, queue, 1)
    riding = {"queueName": queue, "jobsSucceeded": [{"jobDescriptor": first}]}
    assert list(take(client, queue, 1, jobAckRequest=riding)["jobs"]) == [second]
    riding = {"queueName": queue, "jobsFailed": [{"jobDescriptor": second, "isFinal": True}]}
    assert take(client, queue, 1, jobAckRequest=riding).keys() == {"serverTimestampMillis"}
    assert [count(client, queue, state) for state in range(4)] == [0, 0, 1, 1]


def test_a_dequeue_from_several_queues(client, queue):
    other = queue + "_other"
    client.createQueue(name=other)
    (first,), (second,) = put(client, queue, b"1"), put(client, other, b"2")
    assert list(take(client, queue, 10, otherQueueNames=[other])["jobs"]) == [first, second]


def test_released_claims(client, queue, shared_server):
    put(client, queue, b"1", b"2")
    with shared_server.client("other") as other:
        take(other, queue, 1)
        take(client, queue, 1)
        assert client.releaseClaims(queueName=queue, claimSource="other") == 1
    assert [count(client, queue, state) for state in (PENDING, IN_PROGRESS)] == [1, 1]


def test_queues_come_and_go(client, queue):
    assert queue in client.getQueueNames()
    client.createQueue(name=queue)
    client.deleteQueue(name=queue, password=PASSWORD)
    assert queue not in client.getQueueNames()
    client.deleteQueue(name=queue, password=PASSWORD)
    with refused(NOT_FOUND, queue):
        take(client, queue)


def test_an_old_client_that_asks_for_nothing_new_gets_jobs_in_order(client, queue):
    names = put(client, queue, *[f"{n}".encode() for n in range(300)])
    assert list(take(client, queue, 300)["jobs"]) == names


def test_a_stale_claim_changes_nothing(client, queue):
    (name,) = put(client, queue, b"x", numAttemptsAllowed=5)
    stale = take(client, queue)["jobMetadata"][name]["claimDescriptor"]
    client.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name, "moveToPending": True}])
    take(client, queue)
    before = look(client, name)
    fenced = {"jobDescriptor": name, "claimDescriptor": stale}
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[fenced], jobsFailed=[fenced])
    client.checkpointJobs(queueName=queue, requests=[fenced | {"newBodyBytes": b"stale"}])
    assert look(client, name) == before
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": name}])
    assert look(client, name)["jobState"] == SUCCEEDED


def test_who_asks_is_told_which_claims_are_stale(client, queue):
    first, second = put(client, queue, b"x", b"y")
    found = take(client, queue)["jobMetadata"]
    requests = [{"jobDescriptor": name, "claimDescriptor": found[name]["claimDescriptor"]} for name in (first, second)]
    client.checkpointJobs(queueName=queue, requests=requests, tellStale=True)
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": second}])
    client.checkpointJobs(queueName=queue, requests=requests)
    fresh = [request | {"newBodyBytes": b"new"} for request in requests]
    with pytest.raises(DeclaredError) as caught:
        client.checkpointJobs(queueName=queue, requests=fresh, tellStale=True)
    assert caught.value.code == 440
    assert caught.value.job_descriptors == [second]
    assert [look(client, name)["body"] for name in (first, second)] == [b"new", b"y"]


@pytest.mark.parametrize("source", ["", "%", "_", "work", "orker:7", "worker:70", "Worker:7"])
def test_checkpoints_are_for_the_source_of_the_claim_alone(client, queue, shared_server, source):
    (name,) = put(client, queue, b"x")
    with shared_server.client("worker:7") as worker, shared_server.client(source) as other:
        take(worker, queue)
        other.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name, "newBody": b"foreign"}])
        assert look(client, name)["body"] == b"x"
        worker.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name, "newBody": b"own"}])
        assert look(client, name)["body"] == b"own"


def test_a_claim_with_a_short_lease_goes_back_by_itself(client, queue):
    (name,) = put(client, queue, b"x")
    take(client, queue, claimTimeoutMillis=100)
    assert list(take(client, queue, waitMillis=15_000)["jobs"]) == [name]
    assert look(client, name)["attemptsRemaining"] == 1


def test_the_finagle_probe_then_ordinary_calls(client, queue, monkeypatch):
    monkeypatch.setitem(STRUCTS, "Probe", {"options": (1, "Options"), "more": (9, "list<Options>")})
    monkeypatch.setitem(STRUCTS, "Options", {"name": (1, "string"), "flags": (2, "map<string,bool>")})
    options = {"name": "finagle", "flags": {"a": True}}
    for _ in range(3):
        with pytest.raises(TApplicationException) as caught:
            client.send_and_read(
                "__can__finagle__trace__v3__", {"options": options, "more": [options] * 3}, args_kind="Probe"
            )
        assert caught.value.type == TApplicationException.UNKNOWN_METHOD
        assert queue in client.getQueueNames()


@pytest.mark.parametrize("more", [{}, {"unknown": "x"}])
def test_jobs_that_are_no_jobs_are_refused_and_the_connection_goes_on(client, queue, monkeypatch, more):
    fields = {"unknown": (99, "string"), "queueName": (1, "string"), "jobs": (2, "list<string>")}
    monkeypatch.setitem(STRUCTS, "OddRequest", fields)
    monkeypatch.setitem(STRUCTS, "OddCall", {"context": (1, "Context"), "request": (2, "OddRequest")})
    arguments = {"context": {"source": "x"}, "request": {**more, "queueName": queue, "jobs": ["a body"]}}
    with pytest.raises(TApplicationException, match="elements of type 11") as caught:
        client.send_and_read("enqueueJobs", arguments, args_kind="OddCall")
    assert caught.value.type == TApplicationException.PROTOCOL_ERROR
    assert count(client, queue) == 0


@pytest.mark.parametrize("number", [0, -1, 2**31 - 1, -(2**31)])
def test_sequence_ids_come_back_whatever_they_are(client, queue, number):
    """Those of Finagle's clients are random."""
    client._sequence_id = number - 1
    assert queue in client.getQueueNames()


def test_failures_whose_text_is_cut_within_a_character_are_carried_out(client, queue):
    """As some clients in C++, PHP or Python 2 send them: their texts are bytes."""
    (name,) = put(client, queue, b"x", customStatus=b"gr\xfcn;")
    assert list(take(client, queue)["jobs"]) == [name]
    ack = {"jobDescriptor": name, "appendCustomStatus": "größ".encode()[:-1]}
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[ack])
    info = look(client, name)
    assert (info["jobState"], info["customStatus"]) == (PENDING, "gr\ufffdn;grö\ufffd")


def test_names_that_are_no_texts_are_refused_and_the_connection_goes_on(client, queue):
    for call in (
        lambda: client.createQueue(name=b"q\xfc"),
        lambda: count(client, b"q\xfc"),
        lambda: put(client, queue, b"x", uniqueKey=b"\xfc"),
        lambda: put(client, queue, b"x" * 60_000, uniqueKey=b"\xfc"),
    ):
        with pytest.raises(TApplicationException, match="is not UTF-8") as caught:
            call()
        assert caught.value.type == TApplicationException.PROTOCOL_ERROR
    assert count(client, queue) == 0
