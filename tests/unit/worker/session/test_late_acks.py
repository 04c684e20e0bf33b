"""Acks that no server took for longer than a lease: they are sent when the store is back."""

import math

import pytest

from pinlater.errors import NoHealthyShards, ServerUnavailable, ShardConnectionFailed, UnknownError
from pinlater.protocol.operations import Calls
from pinlater.worker.session import late_acks as late_module
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.queue_acks import QueueAcks
from tests.unit.worker.fakes import FakePipeline, batch_of, names
from tests.unit.worker.session.ack_bench import acked


def outlast(bench, clock, error):
    """Let the store be away for longer than a lease."""
    for _ in range(3):
        bench.ack_buffer.flush()
        while bench.pipeline.in_flight:
            bench.pipeline.answer(error)
        clock[0] += 31
    bench.pipeline.sent.clear()


def make_late(bench, clock, error):
    """Succeed a job whose store is away for longer than a lease."""
    batch = bench.batch(*names(1))
    bench.succeed(batch, 0)
    outlast(bench, clock, error)
    return batch


@pytest.mark.parametrize("error", [ShardConnectionFailed("shard 2 is away"), NoHealthyShards("none")])
@pytest.mark.parametrize("has_place", [True, False])
def test_the_end_of_a_job_is_told_however_long_its_store_is_away(bench, clock, error, has_place):
    batch = make_late(bench, clock, error)
    assert bench.ack_buffer.is_empty
    late = bench.ack_buffer.late
    assert late.wait_seconds == late_module.RETRY_SECONDS
    if not has_place:
        assert late.free_places()
        assert not late.free_places()
    for reply in (error, ServerUnavailable("restarted"), error, None):
        assert bench.held == (names(1) if has_place else [])
        bench.ack_buffer.piggyback()
        bench.ack_buffer.piggyback()
        bench.ack_buffer.flush()
        assert len(bench.pipeline.sent) == 1, "in time, and once"
        [(_, arguments, *_)] = bench.pipeline.sent
        assert acked(arguments.request) == names(1)
        assert arguments.request.jobsSucceeded[0].claimDescriptor == batch.claim
        bench.pipeline.answer(reply)
        bench.pipeline.sent.clear()
        clock[0] += late_module.RETRY_SECONDS
    bench.ack_buffer.flush()
    assert bench.pipeline.sent == []
    assert late.wait_seconds == math.inf
    assert bench.counted == []
    assert batch.area.is_free


def test_late_acks_that_the_keeper_has_sent_are_not_sent_again(bench, clock):
    acked, other = (make_late(bench, clock, NoHealthyShards("none")) for _ in range(2))
    acked.area.mark_acked(0, acked.fetched_ns)
    bench.ack_buffer.drop_acked()
    assert acked.area.is_free
    assert not other.area.is_free
    bench.ack_buffer.flush()
    assert len(bench.pipeline.sent) == 1


def test_late_acks_that_are_refused_or_too_many_are_given_up(bench, clock, monkeypatch):
    away = ShardConnectionFailed("shard 2 is away")
    make_late(bench, clock, away)
    bench.ack_buffer.flush()
    bench.pipeline.answer(UnknownError("no such thing"))
    assert bench.counted == [("mail", "untold", 1)]
    monkeypatch.setattr(late_module, "MOST_JOBS", 1)
    make_late(bench, clock, away)
    make_late(bench, clock, away)
    assert bench.counted == [("mail", "untold", 1)] * 2
    assert bench.held == names(1), "those that are given up have no place"


def test_late_acks_of_a_process_that_ends_are_left_to_the_keeper_or_else_given_up(bench, clock):
    away = ShardConnectionFailed("shard 2 is away")
    make_late(bench, clock, away)
    bench.ack_buffer.late.close()
    assert (bench.counted, bench.held) == ([], names(1))
    bench.ack_buffer.late.free_places()
    bench.ack_buffer.late.close()
    assert (bench.counted, bench.held) == ([("mail", "untold", 1)], [])
    assert bench.ack_buffer.late.wait_seconds == math.inf


def test_of_too_many_late_acks_the_oldest_are_given_up_even_if_they_are_on_their_way(bench, monkeypatch):
    monkeypatch.setattr(late_module, "MOST_JOBS", 2)
    late, call = bench.ack_buffer.late, Calls("me", is_plain=True).queue_names()

    def add(queue):
        late.add(QueueAcks(queue, succeeded=[(bench.batch(*names(1, queue)), 0)]), call)

    add("mail")
    late.send()
    add("web")
    add("sms")
    assert bench.counted == [("mail", "untold", 1)]
    bench.pipeline.answer(NoHealthyShards("none"))
    assert bench.counted == [("mail", "untold", 1)]
    assert sorted(bench.held) == [*names(1, "sms"), *names(1, "web")]


def test_late_acks_are_sent_more_often_if_claims_are_short():
    pipeline = FakePipeline()
    pipeline.lease_seconds = 1.5
    ack_buffer = AckBuffer(pipeline, Calls("me", is_plain=True), lambda _: None)
    ack_buffer.late.add(QueueAcks("mail", succeeded=[(batch_of(*names(1)), 0)]), Calls("me").queue_names())
    assert ack_buffer.late.wait_seconds == 0.5


def test_releases_are_late_as_well(bench, clock):
    batch = bench.batch(*names(1))
    bench.ack_buffer.release(batch, [0])
    outlast(bench, clock, NoHealthyShards("none"))
    bench.ack_buffer.flush()
    [(method, *_)] = bench.pipeline.sent
    assert method == "checkpointJobs"
