"""What is sent for each verb, and what is made of the answers."""

import re

import pytest

from pinlater.errors import ProtocolError
from pinlater.model.attempts import Ack, Acks, Checkpoint, ClaimedJob
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport
from pinlater.protocol import messages
from pinlater.protocol.codec import Codec
from pinlater.protocol.conversion import jobs, queues, values, workers
from pinlater.protocol.operations import OPERATIONS, Calls
from tests.unit.protocol.test_messages import ORIGINAL_METHODS

calls = Calls("test")


def sent(call):
    """Return the request as a server sees it."""
    codec = Codec()
    arguments = codec.decode_call(codec.encode_call(call.method, 1, call.arguments)[4:]).arguments
    assert arguments.context.source == "test"
    return arguments.request


def test_each_method_of_the_contract_has_a_row():
    assert OPERATIONS.keys() == messages.METHODS
    assert {method for method, row in OPERATIONS.items() if row.is_original} == ORIGINAL_METHODS


@pytest.mark.parametrize("method", OPERATIONS)
def test_a_row_says_in_a_sentence_what_the_call_does(method):
    assert re.match(r"[A-Z][^\n]+\.(\n|$)", OPERATIONS[method].build.__doc__)


def test_the_server_parks_calls_that_wait_for_jobs_their_ends_or_cancellations():
    waiting = {method for method, row in OPERATIONS.items() if row.may_wait}
    assert waiting == {"dequeueJobs", "lookupJobs", "getCancelledJobs"}


def test_calls_that_must_not_be_done_twice_have_a_key():
    keyed = {method for method, row in OPERATIONS.items() if row.has_key}
    assert keyed == {"enqueueJobs", "importJobs", "retryFailedJobs", "runJobsNow", "scheduleJobs", "deleteJobs"}
    assert calls.run_now("q", []).arguments.context.idempotencyKey is not None
    assert Calls("worker", is_plain=True).run_now("q", []).arguments.context.idempotencyKey is None


def test_the_source_tells_processes_apart():
    import os

    program, _, pid = Calls().source.rpartition(":")
    assert program.count(":") == 1
    assert int(pid) == os.getpid()


def test_enqueue():
    request = sent(calls.enqueue_jobs("q", [NewJob(b"\xff"), NewJob(b"b", 2, 99, 5, "s", "k")]))
    first, second = request.jobs
    assert request.queueName == "q"
    assert (first.body, first.priority, first.runAfterTimestampMillis, first.numAttemptsAllowed) == (
        b"\xff",
        1,
        None,
        2,
    )
    assert (second.priority, second.runAfterTimestampMillis, second.numAttemptsAllowed) == (2, 99, 5)
    assert (second.customStatus, second.uniqueKey) == ("s", "k")
    assert first.uniqueKey is None


def test_dequeue():
    acks = Acks([Ack("d1", "c1")], [Ack("d2", "c2", "why", 1.5, True)])
    call = calls.dequeue_jobs("q", 7, wait=2.5, lease=30, acks=acks, other_queues=("r",))
    request = sent(call)
    assert (request.limit, request.waitMillis, request.claimTimeoutMillis) == (7, 2500, 30000)
    assert request.otherQueueNames == ["r"]
    assert request.jobAckRequest.queueName == "q"
    failed = request.jobAckRequest.jobsFailed[0]
    assert (failed.claimDescriptor, failed.appendCustomStatus, failed.retryDelayMillis) == ("c2", "why", 1500)
    assert failed.isFinal is True
    assert request.jobAckRequest.jobsSucceeded[0].isFinal is None
    assert call.wait == 2.5


def test_a_plain_dequeue_has_nothing_a_server_of_the_original_lacks():
    request = sent(calls.dequeue_jobs("q", 1))
    assert request.waitMillis is request.claimTimeoutMillis is request.otherQueueNames is request.jobAckRequest is None


def test_a_text_body_is_saved_where_old_servers_look_and_other_bytes_where_they_do_not():
    text, binary, none = sent(
        calls.checkpoint("q", [Checkpoint("d", body="é".encode()), Checkpoint("d", body=b"\xff"), Checkpoint("d")])
    ).requests
    assert (text.newBody, text.newBodyBytes) == ("é".encode(), None)
    assert (binary.newBody, binary.newBodyBytes) == (None, b"\xff")
    assert (none.newBody, none.newBodyBytes) == (None, None)


def test_count_scan_retry_delete_release():
    assert sent(calls.count("q", JobState.FAILED, priority=2, body_regex="x")).bodyRegexToMatch == "x"
    assert sent(calls.count("q", JobState.PENDING)).priority is None
    assert sent(calls.scan("q", JobState.PENDING)).continuation == "0"
    assert sent(calls.scan("q", JobState.PENDING, continuation="t", future=True)).continuation == "t"
    assert sent(calls.retry_failed("q", attempts=3, run_after_ms=9)).attemptsToAllow == 3
    assert sent(calls.delete_jobs("q", JobState.SUCCEEDED, limit=5)).limit == 5
    assert sent(calls.retry_these("q", ["q:s1:p1:1"], attempts=3)).jobDescriptors == ["q:s1:p1:1"]
    assert sent(calls.delete_these("q", ["q:s1:p1:1"], JobState.FAILED)).jobDescriptors == ["q:s1:p1:1"]


def test_a_server_of_the_original_touches_no_other_jobs():
    assert sent(calls.retry_these("q", ["q:s1:p1:1"])).limit == 0
    assert sent(calls.delete_these("q", ["q:s1:p1:1"], JobState.FAILED)).limit == 0
    assert sent(calls.release_claims("q", "me")).claimSource == "me"


FENCED, UNFENCED = Ack("d", "c"), Ack("d")


@pytest.mark.parametrize(
    ("call", "safe"),
    [
        (calls.create_queue("q"), True),
        (calls.delete_queue("q", "p"), False),
        (calls.queue_names(), True),
        (calls.enqueue_jobs("q", []), True),
        (calls.dequeue_jobs("q", 1), False),
        (calls.dequeue_jobs("q", 1, dry_run=True), True),
        (calls.ack("q", [UNFENCED], [FENCED]), True),
        (calls.ack("q", [], [UNFENCED]), False),
        (calls.checkpoint("q", [Checkpoint("d", "c")]), True),
        (calls.checkpoint("q", [Checkpoint("d", "c"), Checkpoint("d")]), False),
        (calls.lookup(["d"]), True),
        (calls.retry_failed("q"), False),
        (calls.delete_jobs("q", JobState.FAILED), False),
        (calls.report_worker(WorkerReport("w", "h"), 1), True),
        (calls.workers(), True),
        (calls.oldest_due(), True),
        (calls.failure_groups(), True),
    ],
)
def test_only_what_does_no_harm_twice_is_repeated(call, safe):
    assert call.safe_to_repeat is safe


def test_claimed_jobs_keep_their_order():
    about = messages.PinLaterDequeueMetadata(attemptsAllowed=3, attemptsRemaining=2, claimDescriptor="c")
    reply = messages.PinLaterDequeueResponse(jobs={"d2": b"2", "d1": b"1"}, jobMetadata={"d2": about})
    assert jobs.claimed_jobs(reply) == [ClaimedJob("d2", b"2", 3, 2, "c"), ClaimedJob("d1", b"1")]
    assert jobs.claimed_jobs(messages.PinLaterDequeueResponse()) == []


def test_pages_end():
    info = messages.PinLaterJobInfo("d", 3, 2, 0, "s", 1, 2, 3, None, None)
    assert jobs.page(messages.PinLaterScanJobsResponse([info], "-1")).continuation is None
    page = jobs.page(messages.PinLaterScanJobsResponse([info], "t"))
    assert page.continuation == "t"
    assert page.jobs == [JobInfo("d", JobState.FAILED, 2, 0, "s", 1, 2, 3, None, None)]


def test_a_worker_is_sent_without_the_time_of_its_report_and_read_with_it():
    job = RunningJob("q:s1:p1:1", 5)
    report = WorkerReport("w", "h", 1, "2", "3", 4, True, [WorkerProcess(9, "p", ["q"], 6, 7, 8, 0, [job])], 99)
    request = sent(calls.report_worker(report, 1.5))
    assert request.keepMillis == 1500
    assert request.worker.reportedAtTimestampMillis is None
    request.worker.reportedAtTimestampMillis = 99
    assert workers.WORKER.records([request.worker]) == [report]
    bare = messages.PinLaterWorker("w", "h", processes=[messages.PinLaterWorkerProcess(9)])
    assert workers.WORKER.records([bare]) == [WorkerReport("w", "h", processes=[WorkerProcess(9, queues=[], jobs=[])])]
    with pytest.raises(ProtocolError):
        workers.WORKER.records([messages.PinLaterWorker("w")])


@pytest.mark.parametrize(
    "convert",
    [
        values.number,
        queues.names,
        jobs.descriptors,
        jobs.page,
        queues.moments,
        workers.WORKER.records,
    ],
)
def test_an_answer_without_its_required_part_is_no_answer(convert):
    with pytest.raises(ProtocolError):
        convert(None)


@pytest.mark.parametrize(("seconds", "expected"), [(0, 0), (1, 1000), (0.0001, 1), (1.5, 1500)])
def test_milliseconds_are_never_fewer(seconds, expected):
    assert values.milliseconds(seconds) == expected


def test_one_name_is_not_taken_for_its_letters():
    for make in (
        calls.lookup,
        calls.oldest_due,
        calls.failure_groups,
        lambda text: calls.retry_these("q", text),
        lambda text: calls.delete_these("q", text, JobState.FAILED),
    ):
        with pytest.raises(TypeError, match=r"put it into a list: \['q:s1:p1:1'\]"):
            make("q:s1:p1:1")
        make(["q:s1:p1:1"])


@pytest.mark.parametrize("state", ["failed", 9])
@pytest.mark.parametrize("call", [calls.count, calls.scan, calls.delete_jobs])
def test_what_is_no_state_is_refused_by_name(call, state):
    with pytest.raises(ValueError, match=f"{state!r} is not a valid JobState"):
        call("email", state)
