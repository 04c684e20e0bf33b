"""What is asked of all shards: numbers, scans, queues."""

import asyncio
import gc

import pytest

from pinlater.errors import (
    NoHealthyShards,
    QueueNotFound,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import Position, missing_shards
from pinlater.protocol.conversion.jobs import read_continuation, write_continuation
from pinlater.protocol.messages import FAILED
from pinlater.server.backends.sharded import ShardUnreachable, fan_out, placement
from pinlater.server.backends.sharded.health import WINDOW
from tests.support.bench import QUEUE, ack_of, new_job
from tests.unit.server.backends.sharded.fake_shards import specs_of
from tests.unit.server.backends.sharded.filling import CLAIM, PENDING, fill


def test_chosen_jobs_are_retried_and_deleted_where_they_are(fleet):
    names = [JobDescriptor.parse(name) for name in fill(fleet, 2, 0, 1)]
    for call, verb in (
        (lambda jobs, queue=QUEUE: fleet.retry_these_jobs(queue, jobs, 1, None), "retry these"),
        (lambda jobs, queue=QUEUE: fleet.schedule_jobs(queue, jobs, None), "schedule"),
        (lambda jobs, queue=QUEUE: fleet.delete_these_jobs(queue, jobs, FAILED), "delete these"),
    ):
        fleet.asked.clear()
        assert call(names) == 3
        assert sorted(fleet.asked_for(verb)) == ["1", "3"]
        assert call([]) == 0
        with pytest.raises(QueueNotFound):
            call([], queue="missing")
        with pytest.raises(QueueNotFound):
            call(names, queue="missing")
        with pytest.raises(ShardConnectionFailed, match="nowhere"):
            call([names[0]._replace(shard="nowhere")])
        fleet.run(fleet.shards["3"].delete_queue(QUEUE))
        assert call(names) == 2
        fleet.shards["1"].error = ShardConnectionFailed("gone")
        with pytest.raises(ShardConnectionFailed):
            call(names)
        fleet.shards["1"].error = None
        fleet.run(fleet.shards["3"].create_queue(QUEUE))


@pytest.mark.parametrize(
    "call",
    [
        lambda fleet, names: fleet.retry_these_jobs(QUEUE, names, 1, None),
        lambda fleet, names: fleet.cancel_jobs(QUEUE, names, ""),
        lambda fleet, names: fleet.ack_dequeued_jobs(QUEUE, [ack_of(str(name)) for name in names], []),
    ],
)
def test_an_error_says_whether_other_shards_have_done_their_parts(fleet, call):
    names = [JobDescriptor.parse(name) for name in fill(fleet, 1, 0, 1)]
    for failing, is_partial in (("3", True), ("13", False)):
        for name in failing:
            fleet.shards[name].error = ShardConnectionFailed("gone")
        with pytest.raises(ShardConnectionFailed) as failure:
            call(fleet, names)
        assert failure.value.is_partial is is_partial


def test_counts_and_scans_name_the_shards_that_do_not_answer(fleet):
    fill(fleet, 1, 2, 3)
    assert missing_shards(fleet.count_jobs(QUEUE, PENDING)) == ()
    fleet.shards["2"].error = ShardConnectionFailed("gone")
    fleet.run(fleet.shards["3"].delete_queue(QUEUE))  # which misses nothing
    for _ in range(WINDOW):  # also when it is not asked any more
        counted, page = fleet.count_jobs(QUEUE, PENDING), fleet.scan_jobs(QUEUE, PENDING, 9, None)
        assert (counted, missing_shards(counted)) == (len(page.jobs), page.missing_shards) == (1, ("2",))
    assert fleet.unhealthy_shards == 1


def test_numbers_are_summed(fleet):
    fill(fleet, 3, 4, 5)
    assert fleet.count_jobs(QUEUE, PENDING) == 12
    assert fleet.release_claims(QUEUE, "worker") == 6
    assert fleet.reap_expired(10, server_age_ms=1, quiet_ms=1) == [(QUEUE, 3, 6)]
    assert fleet.collect_finished(1, 1, 10) == [(QUEUE, 9, 0)]


@pytest.mark.parametrize(
    ("maintain", "done"),
    [
        (lambda fleet: fleet.reap_expired(10, server_age_ms=1, quiet_ms=1), [(QUEUE, 2, 4)]),
        (lambda fleet: fleet.collect_finished(1, 1, 10), [(QUEUE, 6, 0)]),
        (lambda fleet: fleet.forget_results(10), 2),
        (lambda fleet: fleet.forget_statistics(10), 2),
    ],
)
def test_what_the_monitor_has_done_counts_although_a_shard_refuses(fleet, maintain, done):
    fleet.shards["2"].error = UnknownError("the disk is full")
    assert maintain(fleet) == done


def test_the_monitor_hears_of_a_shard_that_refuses_when_there_was_nothing_else_to_do(fleet):
    for name in "13":
        fleet.run(fleet.shards[name].delete_queue(QUEUE))
    fleet.shards["2"].error = UnknownError("the disk is full")
    with pytest.raises(UnknownError, match="the disk is full"):
        fleet.reap_expired(10, server_age_ms=1, quiet_ms=1)
    for name in "13":
        fleet.shards[name].error = fleet.shards["2"].error
    with pytest.raises(UnknownError, match="the disk is full"):
        fleet.forget_results(10)


def test_a_limit_holds_over_all_shards(fleet):
    assert fleet.retry_failed_jobs(QUEUE, 1, 1, None, 5) == 5
    assert len(fleet.asked_for("retry")) == 2
    assert fleet.retry_failed_jobs(QUEUE, 1, 1, None, 100) == 9
    fill(fleet, 3, 4, 5)
    assert fleet.delete_jobs(QUEUE, PENDING, 8) == 8
    assert fleet.delete_jobs(QUEUE, PENDING, 0) == 0
    assert fleet.count_jobs(QUEUE, PENDING) == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 12, 100])
def test_pages_meet_every_job_once_latest_first(fleet, limit):
    for number, shard in enumerate(fleet.shards.values()):
        fleet.run(shard.enqueue_jobs(QUEUE, [new_job(run_after_ms=at) for at in (5, 3, 5, number, 5, 9)]))
    seen, position = [], None
    while True:
        page = fleet.scan_jobs(QUEUE, PENDING, limit, position)
        assert len(page.jobs) <= limit
        seen += page.jobs
        position = page.position
        if position is None:
            break
        assert isinstance(position, Position)
    assert len({record.descriptor for record in seen}) == len(seen) == 18
    assert [record.run_after_ms for record in seen] == sorted((record.run_after_ms for record in seen), reverse=True)


@pytest.mark.parametrize("position", [Position(-5, 7), Position(5, 2**63 - 1, "2d1"), Position(0, 1, "a.b.")])
def test_a_position_survives_the_wire(position):
    assert read_continuation(write_continuation(position)) == position


def test_a_queue_is_made_on_all_shards_and_gone_from_all(fleet):
    fleet.create_queue("thumbnails")
    assert fleet.queue_names() == {QUEUE, "thumbnails"}
    fleet.delete_queue(QUEUE)
    assert [fleet.run(shard.queue_names()) for shard in fleet.shards.values()] == [{"thumbnails"}] * 3
    with pytest.raises(QueueNotFound):
        fleet.count_jobs(QUEUE, PENDING)


def test_a_shard_that_was_added_gets_a_queue_with_its_first_job(fleet):
    fleet.update(*specs_of("1", "4", dequeue_only=("1",)))
    assert fleet.dequeue_jobs(QUEUE, 5, CLAIM).jobs == []
    assert fleet.count_jobs(QUEUE, PENDING) == 0
    assert fleet.enqueue_jobs(QUEUE, [new_job()]) == [f"{QUEUE}:s4:p1:1"]
    assert fleet.count_jobs(QUEUE, PENDING) == 1


def test_a_queue_that_no_shard_has_is_missing(fleet):
    for call in (
        lambda: fleet.enqueue_jobs("missing", [new_job()]),
        lambda: fleet.dequeue_jobs("missing", 1, CLAIM),
        lambda: fleet.peek_jobs("missing", 1),
        lambda: fleet.ack_dequeued_jobs("missing", [ack_of(f"missing:s{shard}:p1:1") for shard in "12"], []),
        lambda: fleet.count_jobs("missing", PENDING),
        lambda: fleet.delete_jobs("missing", PENDING, 1),
    ):
        with pytest.raises(QueueNotFound, match="missing"):
            call()
    for _ in range(WINDOW * 2):
        with pytest.raises(QueueNotFound):
            fleet.dequeue_jobs("missing", 1, CLAIM)
    assert fleet.unhealthy_shards == 0


def test_a_queue_is_made_while_a_shard_is_dead_and_not_deleted_by_halves(fleet):
    fleet.shards["2"].error = ShardConnectionFailed("gone")
    fleet.create_queue("thumbnails")
    with pytest.raises(ShardConnectionFailed, match="still on shard 2"):
        fleet.delete_queue(QUEUE)
    fleet.shards["2"].error = None
    fleet.delete_queue(QUEUE)
    assert fleet.queue_names() == {"thumbnails"}


def test_a_call_that_took_its_time_asks_no_further_shard(fleet, monkeypatch):
    fill(fleet, 1, 1, 1)
    monkeypatch.setattr(fan_out, "PATIENCE_SECONDS", -1.0)
    assert len(fleet.dequeue_jobs(QUEUE, 9, CLAIM).jobs) == 1
    monkeypatch.setattr(placement, "_PATIENCE_SECONDS", -1.0)
    for shard in fleet.shards.values():
        shard.error = ShardUnreachable("refused")
    fleet.asked.clear()
    with pytest.raises(NoHealthyShards):
        fleet.enqueue_jobs(QUEUE, [new_job()])
    assert len(fleet.asked_for("enqueue")) == 1


def test_shards_that_take_long_to_change_many_jobs_keep_the_others_from_nothing(fleet, monkeypatch):
    """Less than the limit would say that there are no more."""
    fill(fleet, 2, 2, 2)
    monkeypatch.setattr(fan_out.time, "monotonic", lambda: 10.0 * len(fleet.asked))
    assert fleet.retry_failed_jobs(QUEUE, 1, 1, None, 100) == 9
    assert fleet.delete_jobs(QUEUE, PENDING, 100) == 6


def test_a_shard_that_fails_after_its_caller_was_cancelled_is_no_unhandled_error(fleet):
    unhandled = []

    async def cancel_a_call():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context["message"]))
        gate = asyncio.Event()
        for shard in fleet.shards.values():
            shard.gate, shard.error = gate, ShardConnectionFailed("gone")
        handles = fleet.fleet.group.healthy()
        call = asyncio.ensure_future(fan_out.ask_all(handles, lambda shard: shard.ping(), patience=60))
        while len(fleet.asked_for("ping")) < len(handles):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        gate.set()
        while len(fleet.told) < len(handles):
            await asyncio.sleep(0)

    fleet.run(cancel_a_call())
    gc.collect()
    assert unhandled == []
