"""The errors of the service, each with its code; to a client that shares no code with it, whose connection goes on."""

import select

import pytest

from tests.integration.independent import (
    IN_PROGRESS,
    NAME_INVALID,
    NAME_TOO_LONG,
    NOT_FOUND,
    PENDING,
    PRIORITY,
    REJECTED,
    UNKNOWN,
    count,
    look,
    put,
    refused,
    take,
)
from tests.support.apache import DeclaredError, TApplicationException
from tests.support.patterns import SLOW_BODY, SLOW_PATTERN
from tests.support.server import PASSWORD

BAD_NAMES = ["", " ", "a-b", "a.b", "a b", "é", "a\n", "x'; DROP TABLE jobs; --", "../etc"]

QUEUE_CALLS = {
    "enqueueJobs": {"jobs": [{"body": b"x"}]},
    "dequeueJobs": {"limit": 1},
    "checkpointJobs": {"requests": [{"jobDescriptor": "q:s1:p1:1"}]},
    "ackDequeuedJobs": {"jobsSucceeded": [{"jobDescriptor": "q:s1:p1:1"}]},
    "getJobCount": {"jobState": 0},
    "scanJobs": {"jobState": 0},
    "retryFailedJobs": {},
    "runJobsNow": {"jobDescriptors": []},
    "scheduleJobs": {"jobDescriptors": [], "runAfterTimestampMillis": 0},
    "deleteJobs": {"jobState": 0},
    "releaseClaims": {"claimSource": "x"},
    "importJobs": {"jobs": []},
    "changeQueueSettings": {"isPaused": True},
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_queue_names_are_refused_by_every_call(client, name):
    with refused(NAME_INVALID):
        client.createQueue(name=name)
    with refused(NAME_INVALID):
        client.deleteQueue(name=name, password=PASSWORD)
    for method, fields in QUEUE_CALLS.items():
        with refused(NAME_INVALID):
            client.call(method, queueName=name, **fields)


def test_long_queue_names(client):
    client.createQueue(name="q" * 58)
    with refused(NAME_TOO_LONG, "58"):
        client.createQueue(name="q" * 59)


@pytest.mark.parametrize("method", sorted(QUEUE_CALLS.keys() - {"enqueueJobs", "importJobs"}))
def test_a_missing_queue_is_named_by_every_call(client, method):
    with refused(NOT_FOUND, "not_there"):
        client.call(method, queueName="not_there", **QUEUE_CALLS[method])


def test_lookup_leaves_out_what_is_not_there(client, queue):
    (name,) = put(client, queue, b"x")
    asked = [name, "not_there:s1:p1:1", f"{queue}:s1:p9:1", f"{queue}:s1:p1:999999999"]
    assert set(client.lookupJobs(jobDescriptors=asked)) == {name}
    assert client.lookupJobs(jobDescriptors=[]) == {}


@pytest.mark.parametrize(
    "name", ["", "x", "q:s1:p1:", "q:s1:p1:x", "q:s1:p1:1:1", "q:s9:p1:1", "q:s1:p1:99999999999999999999"]
)
def test_bad_descriptors(client, queue, name):
    (good,) = put(client, queue, b"x")
    take(client, queue)
    with refused(UNKNOWN, "descriptor"):
        client.lookupJobs(jobDescriptors=[name])
    with refused(UNKNOWN, "descriptor"):
        client.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name}])
    with refused(UNKNOWN, "descriptor"):
        client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": name}, {"jobDescriptor": good}])


def test_a_malformed_ack_spoils_neither_the_others_nor_the_jobs(client, queue):
    first, second = put(client, queue, b"1", b"2")
    take(client, queue, 1)
    for bad in ({"jobDescriptor": "nonsense"}, {"appendCustomStatus": "no descriptor"}):
        riding = {"queueName": queue, "jobsSucceeded": [bad, {"jobDescriptor": first}]}
        with pytest.raises((DeclaredError, TApplicationException)):
            take(client, queue, 1, jobAckRequest=riding)
        assert [count(client, queue, state) for state in range(4)] == [1, 0, 1, 0]
    assert look(client, second)["attemptsRemaining"] == 2
    assert list(take(client, queue)["jobs"]) == [second]


@pytest.mark.parametrize("priority", [0, -1, 4, 127])
def test_priorities_that_are_not_supported(client, queue, priority):
    with refused(PRIORITY, str(priority)):
        client.enqueueJobs(queueName=queue, jobs=[{"body": b"1"}, {"body": b"2", "priority": priority}])
    assert count(client, queue) == 0
    for method in ("getJobCount", "scanJobs", "retryFailedJobs", "deleteJobs"):
        with refused(PRIORITY, str(priority)):
            client.call(method, queueName=queue, priority=priority, **QUEUE_CALLS[method])


def test_an_absent_priority_is_all_levels_or_the_first(client, queue):
    put(client, queue, b"x", priority=2)
    assert count(client, queue) == 1
    assert len(client.scanJobs(queueName=queue, jobState=PENDING)["scannedJobs"]) == 1
    assert client.deleteJobs(queueName=queue, jobState=PENDING) == 0
    assert client.deleteJobs(queueName=queue, jobState=PENDING, priority=2) == 1


def test_an_empty_batch(client, queue):
    assert put(client, queue) == []


def test_a_body_that_is_too_large_is_refused_with_its_batch(client, queue):
    assert len(put(client, queue, b"x" * 100_000)) == 1
    with refused(REJECTED, "100001 bytes"):
        put(client, queue, b"small", b"x" * 100_001)
    assert count(client, queue) == 1
    (name,) = take(client, queue)["jobs"]
    with refused(REJECTED, "100001 bytes"):
        client.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name, "newBody": b"x" * 100_001}])


def test_more_jobs_than_fit_into_an_answer_come_in_several(client, queue):
    for _ in range(3):
        put(client, queue, *[b"x" * 90_000] * 12)
    sizes = []
    while jobs := take(client, queue, 100).get("jobs"):
        sizes.append(len(jobs))
        client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": name} for name in jobs])
    assert sum(sizes) == 36
    assert len(sizes) > 1


@pytest.mark.parametrize("limit", [-1, -(2**31)])
def test_negative_limits(client, queue, limit):
    put(client, queue, b"x")
    for method in ("scanJobs", "retryFailedJobs", "deleteJobs", "dequeueJobs"):
        with refused(UNKNOWN, "limit"):
            client.call(method, queueName=queue, **(QUEUE_CALLS[method] | {"limit": limit}))
    assert count(client, queue) == 1


def test_limits_of_zero(client, queue):
    put(client, queue, b"x")
    assert client.scanJobs(queueName=queue, jobState=0, limit=0) == {"scannedJobs": [], "continuation": "-1"}
    assert client.retryFailedJobs(queueName=queue, limit=0) == 0
    assert client.deleteJobs(queueName=queue, jobState=0, limit=0) == 0
    with refused(UNKNOWN, "limit"):
        take(client, queue, 0)
    assert count(client, queue) == 1


def test_scans_page_by_continuation(client, queue):
    names = put(client, queue, *[b"x"] * 25)
    found, token, pages = [], "0", 0
    while token != "-1":
        page = client.scanJobs(queueName=queue, jobState=PENDING, limit=10, continuation=token)
        found += [job["jobDescriptor"] for job in page["scannedJobs"]]
        token, pages = page["continuation"], pages + 1
    assert (found, pages) == (names[::-1], 3)


@pytest.mark.parametrize("token", ["", "-1", "1", "x", "1.2.3", "0.-1", "9" * 40 + ".1", "1.٣"])
def test_continuations_that_no_scan_has_returned(client, queue, token):
    with refused(400):
        client.scanJobs(queueName=queue, jobState=PENDING, continuation=token)


@pytest.mark.parametrize("state", [-1, 4, 2**31 - 1])
def test_states_that_there_are_not(client, queue, state):
    for method in ("getJobCount", "scanJobs", "deleteJobs"):
        with refused(UNKNOWN, "state"):
            client.call(method, queueName=queue, jobState=state)


@pytest.mark.parametrize("coverage", [-0.1, 1.1, float("nan"), float("inf")])
def test_coverage_is_a_share(client, queue, coverage):
    with refused(UNKNOWN, "coverage"):
        take(client, queue, coverage=coverage)


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD + " ", None])
def test_wrong_passwords(client, queue, password):
    with refused(403):
        client.deleteQueue(name=queue, **({} if password is None else {"password": password}))
    with refused(403):  # before anything else
        client.deleteQueue(name="not_there", password="wrong")
    assert queue in client.getQueueNames()


@pytest.mark.parametrize("pattern", ["(", "*", "x" * 5000])
def test_bad_patterns(client, queue, pattern):
    for method in ("getJobCount", "scanJobs", "deleteJobs"):
        with refused(UNKNOWN, "pattern"):
            client.call(method, queueName=queue, jobState=0, bodyRegexToMatch=pattern)


def test_a_search_that_takes_long_slows_nobody_down(client, queue, shared_server):
    put(client, queue, *[SLOW_BODY] * 40)
    with shared_server.client() as other:
        arguments = {"queueName": queue, "jobState": 0, "bodyRegexToMatch": SLOW_PATTERN}
        other.send("getJobCount", {"context": {"source": "x"}, "request": arguments})
        for n in range(20):
            put(client, queue, b"%d" % n)
        assert not select.select([other.socket.handle], [], [], 0)[0], "the search should still be under way"
        with refused(UNKNOWN, "took longer"):
            other.read("getJobCount")


def test_statuses_are_cut_and_clean(client, queue):
    (name,) = put(client, queue, b"x", customStatus="🐙" * 6000)
    assert look(client, name)["customStatus"] == "🐙" * 5000
    (name,) = put(client, queue, b"x", customStatus="a\0b")
    take(client, queue)
    client.ackDequeuedJobs(queueName=queue, jobsSucceeded=[{"jobDescriptor": name, "appendCustomStatus": "c\0d"}])
    assert look(client, name)["customStatus"] == "a\N{REPLACEMENT CHARACTER}bc\N{REPLACEMENT CHARACTER}d"


@pytest.mark.parametrize("delay", [2**63 - 1, -(2**63)])
def test_extreme_delays_and_times_harm_nobody(client, queue, delay):
    put(client, queue, b"x", runAfterTimestampMillis=delay)
    (name,) = put(client, queue, b"y")
    take(client, queue)
    client.ackDequeuedJobs(queueName=queue, jobsFailed=[{"jobDescriptor": name, "retryDelayMillis": delay}])
    assert take(client, queue, waitMillis=1) is not None
    assert count(client, queue, countFutureJobs=True) + count(client, queue) + count(client, queue, IN_PROGRESS) == 2


@pytest.mark.parametrize("time_ms", [2**52, 2**52 + 5, 2**63 - 1])
@pytest.mark.parametrize("fields", [{}, {"key": "a"}])
def test_a_job_that_is_never_to_run_waits_for_no_key(client, queue, time_ms, fields):
    (name,) = put(client, queue, b"x", runAfterTimestampMillis=time_ms, **fields)
    assert "jobs" not in take(client, queue, waitMillis=1)
    found = look(client, name)
    assert (found["jobState"], found["runAfterTimestampMillis"]) == (PENDING, 2**52 - 1)
    assert not found.get("waitsForKey")
    assert count(client, queue, countFutureJobs=True) == 1


MISSING = [
    ("createQueue", {}, "context"),
    ("createQueue", {"context": {}}, "source"),
    ("createQueue", {"context": {"source": "x"}}, "name"),
    ("enqueueJobs", {"context": {"source": "x"}}, "request"),
    ("enqueueJobs", {"context": {"source": "x"}, "request": {}}, "queueName"),
    ("enqueueJobs", {"context": {"source": "x"}, "request": {"queueName": "q"}}, "jobs"),
    ("enqueueJobs", {"context": {"source": "x"}, "request": {"queueName": "q", "jobs": [{}]}}, "body"),
    ("dequeueJobs", {"context": {"source": "x"}, "request": {"queueName": "q"}}, "limit"),
    ("lookupJobs", {"context": {"source": "x"}, "request": {}}, "jobDescriptors"),
    ("checkpointJobs", {"context": {"source": "x"}, "request": {"queueName": "q"}}, "requests"),
    ("checkpointJobs", {"context": {"source": "x"}, "request": {"queueName": "q", "requests": [{}]}}, "jobDescriptor"),
    ("scanJobs", {"context": {"source": "x"}, "request": {"queueName": "q"}}, "jobState"),
    ("getJobCount", {"context": {"source": "x"}, "request": {"queueName": "q"}}, "jobState"),
    ("getQueueNames", {}, "context"),
]


@pytest.mark.parametrize(("method", "arguments", "field"), MISSING)
def test_a_missing_field_is_named_and_the_connection_goes_on(client, queue, method, arguments, field):
    with pytest.raises((TApplicationException, DeclaredError), match=field):
        client.send_and_read(method, arguments)
    assert queue in client.getQueueNames()
