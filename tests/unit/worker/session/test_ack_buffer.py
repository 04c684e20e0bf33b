"""What was not confirmed is said again; what was, is not."""

import pytest

from pinlater.errors import (
    CallUnsendable,
    DequeueRateLimited,
    EnqueueRejected,
    QueueNotFound,
    ServerUnavailable,
    UnknownError,
)
from pinlater.model.statistics import RunStatistics
from pinlater.worker.claim_table.snapshot import DISCARDED, GONE, HELD, RESULTED, RETURNING, SUCCEEDED
from pinlater.worker.session import ack_buffer as settler_module
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Failure, Interruption
from tests.unit.worker.fakes import names
from tests.unit.worker.session.ack_bench import acked


def test_a_long_run_is_told_with_its_ack(bench):
    batch = bench.batch(*names(3))
    batch.keep_run_time(1, 81_234)
    bench.succeed(batch, 0, 1, 2)
    request, _ = bench.ack_buffer.piggyback()
    assert [info.runMillis for info in request.jobsSucceeded] == [None, 81_234, None]
    assert {info.result for info in request.jobsSucceeded} == {None}


def test_what_is_told_of_classes_goes_with_the_acks_of_their_queue(bench):
    runs = {"mail": [RunStatistics("Mail", 1)], "sms": [RunStatistics("Sms", 2)]}
    bench.ack_buffer._take_runs = lambda: {queue: runs.pop(queue) for queue in list(runs)}
    batch = bench.batch(*names(1))
    bench.succeed(batch, 0)
    request, _ = bench.ack_buffer.piggyback()
    assert (request.queueName, [one.className for one in request.runStatistics]) == ("mail", ["Mail"])
    [call] = bench.pipeline.sent
    alone = call[1].request
    assert (alone.queueName, alone.jobsSucceeded, [one.succeeded for one in alone.runStatistics]) == ("sms", None, [2])


def test_what_is_told_of_classes_does_not_wait_for_acks(bench):
    runs = {"mail": [RunStatistics("Mail", 1)]}
    bench.ack_buffer._take_runs = lambda: {queue: runs.pop(queue) for queue in list(runs)}
    request, _ = bench.ack_buffer.piggyback()
    assert [one.className for one in request.runStatistics] == ["Mail"]
    assert bench.ack_buffer.piggyback()[0] is None
    assert bench.ack_buffer.is_empty


def test_acks_are_sent_with_a_dequeue_and_dropped_when_confirmed(bench):
    batch = bench.batch(*names(3))
    bench.succeed(batch, 0, 1)
    request, on_reply = bench.ack_buffer.piggyback()
    assert request.queueName == "mail"
    assert acked(request) == names(2)
    assert {info.claimDescriptor for info in request.jobsSucceeded} == {batch.claim}
    assert request.jobsFailed is None
    assert not bench.ack_buffer.is_empty
    on_reply("jobs")
    assert bench.ack_buffer.is_empty
    assert list(batch.area.states[:3]) == [GONE, GONE, HELD]
    assert bench.ack_buffer.piggyback()[0] is None


def test_failures_carry_all_that_is_known(bench):
    batch = bench.batch(*names(2))
    bench.ack_buffer.failed("mail", (batch, 0), Failure("why", 1500))
    bench.ack_buffer.failed("mail", (batch, 1), Failure("enough", None))
    request, on_reply = bench.ack_buffer.piggyback()
    again, final = request.jobsFailed
    assert (again.appendCustomStatus, again.retryDelayMillis, again.isFinal) == ("why", 1500, None)
    assert (final.appendCustomStatus, final.isFinal) == ("enough", True)
    assert bench.retries == []
    on_reply("jobs")
    assert bench.retries == [1500]


def test_a_last_attempt_leads_to_no_retry(bench):
    batch = bench.batch(*names(1), remaining=1)
    bench.ack_buffer.failed("mail", (batch, 0), Failure("why", 1500))
    bench.ack_buffer.flush()
    bench.pipeline.answer()
    assert bench.ack_buffer.is_empty
    assert bench.retries == []


def test_acks_of_a_lost_call_are_sent_again(bench):
    batch = bench.batch(*names(2))
    bench.succeed(batch, 0)
    _, on_reply = bench.ack_buffer.piggyback()
    bench.succeed(batch, 1)
    on_reply(ServerUnavailable("gone"))
    assert not bench.ack_buffer.is_empty
    assert list(batch.area.states[:2]) == [SUCCEEDED, SUCCEEDED]
    request, _ = bench.ack_buffer.piggyback()
    assert sorted(acked(request)) == names(2)


def test_nothing_is_sent_without_a_connection(bench):
    bench.succeed(bench.batch(*names(1)), 0)
    bench.pipeline.is_open = False
    bench.ack_buffer.flush()
    assert bench.ack_buffer.has_pending
    assert bench.pipeline.sent == []


def test_acks_of_the_largest_queue_go_with_the_dequeue_and_others_before(bench):
    batch = bench.batch(*names(2, "web"), *names(1, "mail"))
    bench.succeed(batch, 0, 1, 2)
    request, _ = bench.ack_buffer.piggyback()
    assert request.queueName == "web"
    assert bench.pipeline.methods == ["ackDequeuedJobs"]
    assert acked(bench.pipeline.last) == names(1, "mail")


def test_jobs_go_back_in_a_call_of_their_own(bench):
    batch = bench.batch(*names(3))
    bench.succeed(batch, 0)
    bench.ack_buffer.release(batch, [1])
    bench.ack_buffer.release(batch, [2], Interruption(b"progress"))
    request, _ = bench.ack_buffer.piggyback()
    assert acked(request) == names(1)
    assert bench.pipeline.methods == ["checkpointJobs"]
    plain, saved = bench.pipeline.last.requests
    assert (plain.moveToPending, plain.newBody, plain.runAfterTimestampMillis) == (True, None, 2000)
    assert (saved.moveToPending, saved.newBody, saved.claimDescriptor) == (True, b"progress", batch.claim)


def test_a_job_that_sleeps_goes_back_for_later(bench):
    batch = bench.batch(*names(2))
    bench.ack_buffer.release(batch, [0], Interruption(b"progress", 9000))
    bench.ack_buffer.release(batch, [1], Interruption(b"progress"))
    bench.ack_buffer.flush()
    assert [returned.runAfterTimestampMillis for returned in bench.pipeline.last.requests] == [9000, 2000]


def test_jobs_given_back_leave_no_acks_for_the_dequeue(bench):
    bench.ack_buffer.release(bench.batch(*names(1)), [0])
    assert bench.ack_buffer.piggyback()[0] is None
    assert bench.pipeline.methods == ["checkpointJobs"]
    bench.pipeline.answer()
    assert bench.ack_buffer.is_empty


def test_acks_of_a_refused_dequeue_go_alone_then(bench):
    bench.succeed(bench.batch(*names(1)), 0)
    _, on_reply = bench.ack_buffer.piggyback()
    on_reply(DequeueRateLimited("paused"))
    assert bench.ack_buffer.piggyback()[0] is None
    assert bench.pipeline.methods == ["ackDequeuedJobs"]
    bench.pipeline.answer()
    assert bench.ack_buffer.is_empty


def test_a_second_refusal_makes_it_wait(bench):
    bench.succeed(bench.batch(*names(1)), 0)
    for _ in range(2):
        bench.ack_buffer.flush()
        bench.pipeline.answer(UnknownError("full"))
    assert bench.ack_buffer.retry_in_seconds > 0
    bench.ack_buffer.flush()
    assert len(bench.pipeline.sent) == 2
    assert bench.ack_buffer.piggyback()[0] is None


def test_retries_stop_at_the_deadline(bench, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(settler_module.time, "monotonic", lambda: clock[0])
    batch = bench.batch(*names(1))
    bench.succeed(batch, 0)
    bench.ack_buffer.flush()
    bench.pipeline.answer(UnknownError("full"))
    clock[0] += 31
    bench.ack_buffer.flush()
    assert bench.counted == []
    bench.pipeline.answer(UnknownError("full"))
    assert bench.ack_buffer.is_empty
    assert batch.area.is_free
    assert bench.counted == [("mail", "untold", 1)]


def test_acks_are_not_given_up_with_older_ones_of_their_queue(bench, clock):
    full, first, second, third = UnknownError("full"), *(bench.batch(*names(1, queue)) for queue in ("mail",) * 3)
    bench.succeed(first, 0)
    bench.ack_buffer.flush()
    bench.pipeline.answer(full)
    clock[0] += 29
    bench.succeed(second, 0)
    bench.ack_buffer.flush()
    for _ in range(2):
        bench.pipeline.answer(full)
    clock[0] += 2
    bench.succeed(third, 0)
    bench.ack_buffer.flush()
    for _ in range(3):
        bench.pipeline.answer(full)
    assert bench.counted == [("mail", "untold", 1)]
    assert [batch.area.is_free for batch in (first, second, third)] == [True, False, False]
    clock[0] += 2
    bench.ack_buffer.flush()
    assert bench.pipeline.in_flight == 1, "those of about the same age go together"


def test_jobs_of_a_queue_that_is_gone_are_done_with(bench):
    batch = bench.batch(*names(1))
    bench.succeed(batch, 0)
    bench.ack_buffer.flush()
    bench.pipeline.answer(QueueNotFound("mail"))
    assert bench.ack_buffer.is_empty
    assert batch.area.is_free


def test_a_dequeue_that_misses_a_queue_says_nothing_of_the_acks_that_it_carries(bench):
    """It may miss another one; and then the server does not say whether it could carry them out."""
    batch = bench.batch(*names(1))
    bench.succeed(batch, 0)
    _, on_reply = bench.ack_buffer.piggyback()
    on_reply(QueueNotFound("web"))
    assert not bench.ack_buffer.is_empty
    bench.ack_buffer.flush()
    assert acked(bench.pipeline.last) == names(1)
    bench.pipeline.answer()
    assert bench.ack_buffer.is_empty
    assert batch.area.is_free


def test_one_end_that_cannot_be_told_does_not_keep_the_others_from_being_told(bench, caplog):
    batch = bench.batch(*names(3))
    bench.succeed(batch, 0, 2)
    bench.ack_buffer.failed("mail", (batch, 1), Failure("half of a \udce9"))
    _, on_reply = bench.ack_buffer.piggyback()
    on_reply(CallUnsendable("too much"))
    requests = [arguments.request for _, arguments, _ in bench.pipeline.sent]
    assert [acked(request) for request in requests] == [[names(3)[0]], [names(3)[2]], []]
    bench.pipeline.answer()
    bench.pipeline.answer()
    bench.pipeline.answer(CallUnsendable("a half"))
    assert bench.ack_buffer.is_empty
    assert "mail:s1:p1:2 cannot be acked" in caplog.text
    assert bench.counted == [("mail", "untold", 1)]
    assert list(batch.area.states[:3]) == [GONE, GONE, GONE]


@pytest.mark.parametrize("error", [EnqueueRejected("at most 1 MB"), CallUnsendable("too many bytes")])
def test_a_body_too_large_to_go_back_with_fails_its_own_job_alone(bench, caplog, error):
    batch = bench.batch(*names(30))
    for position in range(30):
        bench.ack_buffer.release(batch, [position], Interruption(b"x" * position, 9000, 4))
    batch.area.delays[17] = 7000
    bench.ack_buffer.flush()
    bench.pipeline.answer(error)
    for position in range(30):
        bench.pipeline.answer(error if position == 17 else None)
    assert bench.ack_buffer.retry_in_seconds == 0
    assert bench.pipeline.methods == ["checkpointJobs"] * 31 + ["ackDequeuedJobs"]
    [failed] = bench.pipeline.last.jobsFailed
    assert (failed.jobDescriptor, failed.retryDelayMillis, failed.isFinal) == (names(30)[17], 7000, None)
    assert "BodyTooLarge: what it goes on with, 17 bytes, cannot be stored" in failed.appendCustomStatus
    bench.pipeline.answer()
    assert bench.ack_buffer.is_empty
    assert "mail:s1:p1:18 fails" in caplog.text
    assert bench.retries == [7000]


def test_an_ack_is_not_lost_if_the_keeper_acks_its_job_while_acked_ones_are_dropped(bench, monkeypatch):
    batch = bench.batch(*names(2))
    bench.succeed(batch, 0)
    bench.ack_buffer.failed("mail", (batch, 1), Failure("why"))
    asked = []

    def is_lost(_, position):
        asked.append(position)
        return asked.count(position) > 1

    monkeypatch.setattr(DequeuedBatch, "is_lost", is_lost)
    bench.ack_buffer.drop_acked()
    bench.ack_buffer.flush()
    assert [len(bench.pipeline.last.jobsSucceeded), len(bench.pipeline.last.jobsFailed)] == [1, 1]
    bench.pipeline.answer()
    assert batch.area.is_free


def test_what_went_back_unstarted_is_counted_when_it_is_confirmed(bench):
    batch = bench.batch(*names(4))
    bench.ack_buffer.release(batch, [0, 1, 2])
    bench.ack_buffer.release(batch, [3], Interruption(b"body"))
    bench.ack_buffer.flush()
    bench.pipeline.answer(ServerUnavailable("gone"))
    assert bench.counted == []
    bench.ack_buffer.flush()
    bench.pipeline.answer()
    assert bench.counted == [("mail", "returned", 3)]


def test_a_result_goes_with_its_ack_and_the_keeper_can_tell_of_it_if_it_is_small(bench):
    batch = bench.batch(*names(3))
    for position, result in ((0, b"1"), (1, b"2" * 50_000), (2, b"3")):
        batch.keep_result(position, result)
        bench.ack_buffer.succeeded("mail", (batch, position))
    assert list(batch.area.states[:3]) == [RESULTED, RETURNING, RESULTED]
    [held] = bench.row.snapshot().batches
    assert [(job.state, job.result) for job in held.jobs] == [(SUCCEEDED, b"1"), (RETURNING, None), (SUCCEEDED, b"3")]
    batch.area.mark_acked(0, batch.fetched_ns)
    bench.ack_buffer.drop_acked()
    bench.ack_buffer.flush()
    assert [info.result for info in bench.pipeline.last.jobsSucceeded] == [b"2" * 50_000, b"3"]
    bench.pipeline.answer()
    assert batch.area.is_free


def test_a_result_that_no_server_takes_gives_up_its_own_job_alone(bench, caplog):
    batch = bench.batch(*names(2))
    batch.keep_result(0, b"1" * 5000)
    bench.ack_buffer.succeeded("mail", (batch, 0))
    bench.succeed(batch, 1)
    bench.ack_buffer.flush()
    bench.pipeline.answer(EnqueueRejected("too large"))
    bench.pipeline.answer(EnqueueRejected("too large"))
    bench.pipeline.answer()
    [info] = bench.pipeline.last.jobsFailed
    assert (info.jobDescriptor, info.isFinal) == (names(1)[0], True)
    assert "ResultTooLarge: what it returned, 5000 bytes, cannot be stored: too large" in info.appendCustomStatus
    [held] = bench.row.snapshot().batches
    assert held.jobs[0].state == DISCARDED
    assert Failure.decode(held.jobs[0].failure).status == info.appendCustomStatus
    bench.pipeline.answer()
    assert batch.area.is_free
