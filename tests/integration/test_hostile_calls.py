"""Calls that are well-formed, and ask for more than a server can give: refused, at nobody else's cost."""

import threading

import pytest

from pinlater.model.password import hash_password
from pinlater.protocol import messages
from pinlater.server.api.rules import MAX_SOURCE_CHARACTERS
from tests.support.apache import DeclaredError
from tests.support.patterns import SLOW_BODY, SLOW_PATTERN
from tests.support.server import PASSWORD, ServerProcess

MB = 1 << 20


def refusals(shared_server, call, count):
    """Make a call on many connections at once; return the errors."""
    found = []

    def one():
        with shared_server.client(timeout_ms=120_000) as client:  # on a busy machine, it is long before its turn
            try:
                call(client)
            except DeclaredError as error:
                found.append(str(error))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, found


def test_a_long_source_does_not_come_back_with_every_job(shared_server, client, queue):
    client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}] * 1000)
    before = shared_server.child().memory_info().rss
    with shared_server.client("s" * MB) as hostile:
        metadata = hostile.dequeueJobs(queueName=queue, limit=1000)["jobMetadata"]
    assert shared_server.child().memory_info().rss - before < 50 * MB
    assert len(metadata) == 1000
    assert max(len(one["claimDescriptor"]) for one in metadata.values()) < 2 * MAX_SOURCE_CHARACTERS


def test_long_sources_that_begin_alike_are_different_ones(shared_server, client, queue):
    long = "s" * MAX_SOURCE_CHARACTERS
    (name,) = client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}])["jobDescriptors"]
    with shared_server.client(f"{long}:7") as worker, shared_server.client(f"{long}:8") as other:
        worker.dequeueJobs(queueName=queue, limit=1)
        for one, body in ((worker, b"own"), (other, b"foreign")):
            one.checkpointJobs(queueName=queue, requests=[{"jobDescriptor": name, "newBodyBytes": body}])
    assert client.lookupJobs(jobDescriptors=[name], includeBody=True)[name]["body"] == b"own"


def test_jobs_come_with_their_claims_in_an_answer_that_can_be_read(shared_server, client, queue):
    client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}] * 5000)
    with shared_server.client("\N{OCTOPUS}" * MAX_SOURCE_CHARACTERS) as wordy:
        taken = 0
        while jobs := wordy.dequeueJobs(queueName=queue, limit=1200).get("jobs"):
            taken += len(jobs)
            assert sum(map(len, jobs.values())) < 2_000_000
    assert taken == 5000


def test_a_look_up_of_more_than_an_answer_holds_is_refused(shared_server, client, queue):
    names = []
    for _ in range(10):
        names += client.enqueueJobs(queueName=queue, jobs=[{"body": b"x" * 99_000}] * 10)["jobDescriptors"]
    before = shared_server.child().memory_info().rss
    with pytest.raises(DeclaredError, match="look up fewer at once"):
        client.lookupJobs(jobDescriptors=names, includeBody=True)
    assert len(client.lookupJobs(jobDescriptors=names)) == 100
    assert len(client.lookupJobs(jobDescriptors=names[:19], includeBody=True)) == 19
    cut = client.lookupJobs(jobDescriptors=names, includeBody=True, maxBodyBytes=3)
    assert {job["body"] for job in cut.values()} == {b"xxx"}
    for size in (0, -1):
        with pytest.raises(DeclaredError, match="use 1 or more"):
            client.lookupJobs(jobDescriptors=names, includeBody=True, maxBodyBytes=size)
    assert len(client.lookupJobs(jobDescriptors=names[:1] * 20_000, includeBody=True)) == 1
    assert shared_server.child().memory_info().rss - before < 100 * MB


def test_a_look_up_of_very_many_jobs_is_refused(client, queue):
    with pytest.raises(DeclaredError, match="a look-up of 10001 jobs; at most 10000"):
        client.lookupJobs(jobDescriptors=[f"{queue}:s1:p1:{number}" for number in range(10_001)])


def test_a_dequeue_of_very_many_queues_is_refused(client, queue):
    with pytest.raises(DeclaredError, match="names 1001 other queues; at most 1000"):
        client.dequeueJobs(queueName=queue, limit=1, otherQueueNames=[f"q{number}" for number in range(1001)])
    client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}])
    assert len(client.dequeueJobs(queueName=queue, limit=1, otherQueueNames=[queue] * 1000)["jobs"]) == 1


def test_a_scan_of_long_statuses_comes_in_answers_that_can_be_read(shared_server, client, queue):
    jobs = [{"body": b"x", "customStatus": "\N{OCTOPUS}" * 5000}] * 70
    for _ in range(10):
        client.enqueueJobs(queueName=queue, jobs=jobs)
    before = shared_server.child().memory_info().rss
    found, position = [], messages.CONTINUATION_START
    while position != messages.CONTINUATION_END:
        page = client.scanJobs(queueName=queue, jobState=0, limit=10_000, continuation=position)
        found += page["scannedJobs"]
        assert 1 < len(page["scannedJobs"]) < 110  # of 20 kB each; an answer may have 2 MB here
        position = page["continuation"]
    assert len({job["jobDescriptor"] for job in found}) == len(found) == 700
    assert shared_server.child().memory_info().rss - before < 100 * MB


BOMBS = [
    "(?:(?:a{1000}){1000}){1000}",
    "(?:(?:(?:a+){1000})+){1000}" * 10,
    "(?:(?:a{00000000000001000}){00000000000001000}){00000000000001000}",
    r"\w{999999}x",
    "(a(?1)?)b",
    "(?R)",
]


@pytest.mark.parametrize("pattern", BOMBS)
@pytest.mark.parametrize("method", ["getJobCount", "scanJobs", "deleteJobs"])
def test_a_pattern_that_is_a_bomb_is_refused(shared_server, client, queue, method, pattern):
    client.enqueueJobs(queueName=queue, jobs=[{"body": b"a" * 90_000}])
    before = shared_server.child().memory_info().rss
    with pytest.raises(DeclaredError, match="pattern"):
        getattr(client, method)(queueName=queue, jobState=0, bodyRegexToMatch=pattern)
    assert shared_server.child().memory_info().rss - before < 50 * MB


def test_many_searches_that_take_long_leave_readers_to_others(tmp_path):
    with ServerProcess(tmp_path, REGEX_TIMEOUT_SECONDS="0.15") as server, server.client() as client:
        client.createQueue(name="bombs")
        name, *_ = client.enqueueJobs(queueName="bombs", jobs=[{"body": SLOW_BODY}] * 20)["jobDescriptors"]
        threads, found = refusals(
            server,
            lambda bomber: bomber.getJobCount(queueName="bombs", jobState=0, bodyRegexToMatch=SLOW_PATTERN),
            40,
        )
        answered = 0
        while any(thread.is_alive() for thread in threads):
            assert client.lookupJobs(jobDescriptors=[name])
            answered += 1
        assert answered > 40  # of readers that are all busy, one would come free each second or so
        assert len(found) == 40
        assert 20 <= sum("too many calls wait" in text for text in found) < 40


def test_guesses_of_the_password_do_not_fill_the_places_of_calls(tmp_path):
    with (
        ServerProcess(tmp_path, MAX_CONCURRENT_REQUESTS="10", ADMIN_PASSWORD_HASH=hash_password(PASSWORD)) as server,
        server.client() as client,
    ):
        client.createQueue(name="precious")
        threads, found = refusals(server, lambda guesser: guesser.deleteQueue(name="precious", password="x"), 60)
        for _ in range(20):
            assert client.getQueueNames() == ["precious"]
        for thread in threads:
            thread.join()
        assert len(found) == 60
        assert sum("too many calls wait" in text for text in found) > 30
        client.deleteQueue(name="precious", password=PASSWORD)
        assert client.getQueueNames() == []
