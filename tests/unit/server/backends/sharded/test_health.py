"""Shards that are dead or ill, and the file that names them."""

import asyncio
import contextlib
from collections import Counter

import pytest

from pinlater.errors import (
    NoHealthyShards,
    ServiceError,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.redis.connection import CONNECT_SECONDS
from pinlater.server.backends.sharded import ShardFull, ShardUnreachable, placement, poll_all
from pinlater.server.backends.sharded.health import MAX_FAILURES_IN_A_ROW, WINDOW, Health
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.waiting import until
from tests.unit.server.backends.sharded.fake_shards import ADDRESS, FleetBench, specs_of
from tests.unit.server.backends.sharded.filling import CLAIM, PENDING, fill, make_ill


def test_a_dead_shard_is_left_alone_until_it_answers(fleet):
    fill(fleet, 2, 2, 2)
    make_ill(fleet, "2")
    fleet.asked.clear()
    assert fleet.count_jobs(QUEUE, PENDING) == 4
    assert len(fleet.dequeue_jobs(QUEUE, 10, CLAIM).jobs) == 4
    assert fleet.scan_jobs(QUEUE, PENDING, 10, None).jobs == []
    with pytest.raises(ShardUnreachable, match="shard 2"):
        fleet.ack_dequeued_jobs(QUEUE, [ack_of(f"{QUEUE}:s2:p1:1")], [])
    assert {shard for shard, verb in fleet.asked if verb != "ping"} == {"1", "3"}
    fleet.shards["2"].error = None
    fleet.wait_until(lambda: fleet.unhealthy_shards == 0)
    assert fleet.count_jobs(QUEUE, PENDING) == 2


def test_a_full_shard_goes_on_without_new_jobs(fleet, caplog):
    fill(fleet, 2, 2, 2)
    fleet.shards["2"].error = ShardFull("shard 2 accepts no new jobs")
    names = [fleet.enqueue_jobs(QUEUE, [new_job()])[0] for _ in range(20)]
    assert {JobDescriptor.parse(name).shard for name in names} == {"1", "3"}
    for shard in fleet.shards.values():
        shard.error = ShardFull(f"shard {shard.name} accepts no new jobs: its memory is full")
    for _ in range(10):
        with pytest.raises(NoHealthyShards, match=r"no shard takes new jobs at present: .* its memory is full"):
            fleet.enqueue_jobs(QUEUE, [new_job()])
    assert "shard 2 accepts no new jobs: its memory is full" in caplog.text
    for shard in fleet.shards.values():
        shard.error = None
    assert len(fleet.dequeue_jobs(QUEUE, 100, CLAIM).jobs) == 26
    assert fleet.unhealthy_shards == 0


def test_a_queue_that_no_shard_has_room_for_is_refused_with_the_reason(fleet, monkeypatch):
    async def refuse(_):
        raise ShardFull("this shard accepts no new jobs: its memory is full")

    for shard in fleet.shards.values():
        monkeypatch.setattr(shard, "create_queue", refuse)
    with pytest.raises(ShardFull, match="its memory is full"):
        fleet.create_queue("young")
    monkeypatch.undo()
    fleet.create_queue("young")
    assert fleet.unhealthy_shards == 0


def test_new_jobs_go_to_another_shard_when_one_is_silent(fleet, monkeypatch):
    fleet.shards["1"].error = ShardUnreachable("no answer")
    monkeypatch.setattr(placement.time, "monotonic", lambda: CONNECT_SECONDS * len(fleet.asked))
    monkeypatch.setattr(placement.random, "shuffle", lambda handles: handles.sort(key=lambda handle: handle.name))
    assert JobDescriptor.parse(fleet.enqueue_jobs(QUEUE, [new_job()])[0]).shard == "2"
    assert [shard for shard, verb in fleet.asked if verb == "enqueue"] == ["1", "2"]


def test_with_all_shards_dead_calls_fail_at_once_and_work_again_later(fleet):
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("gone")
    for _ in range(10):
        with pytest.raises(NoHealthyShards):
            fleet.count_jobs(QUEUE, PENDING)
    for call in (
        lambda: fleet.enqueue_jobs(QUEUE, [new_job()]),
        lambda: fleet.dequeue_jobs(QUEUE, 1, CLAIM),
        fleet.queue_names,
        lambda: fleet.run(poll_all(fleet.fleet.group, 1000)),
    ):
        with pytest.raises(NoHealthyShards):
            call()
    for shard in fleet.shards.values():
        shard.error = None
    fleet.wait_until(lambda: fleet.unhealthy_shards == 0)
    assert fleet.count_jobs(QUEUE, PENDING) == 0


def test_a_store_of_which_no_shard_answers_says_so_and_why(fleet):
    fleet.update(*specs_of("1", "2"))
    assert fleet.fleet.fault is None
    make_ill(fleet, "2")
    assert fleet.fleet.fault is None
    fleet.shards["1"].error = ShardConnectionFailed("gone")
    while fleet.fleet.fault is None:
        with contextlib.suppress(ServiceError):
            fleet.count_jobs(QUEUE, PENDING)
    assert fleet.fleet.fault == "no shard of the store answers: gone"
    for shard in fleet.shards.values():
        shard.error = None
    fleet.wait_until(lambda: fleet.fleet.fault is None)


def test_each_shard_says_how_it_is_and_since_when(fleet):
    fleet.update(*specs_of("1", "2", "3", dequeue_only=("3",)))
    first, second, third = fleet.fleet.shard_states()
    assert (first.name, first.place, first.unhealthy_in, first.error, first.connections) == (
        "1",
        str(ADDRESS),
        0,
        "",
        1,
    )
    assert [state.is_dequeue_only for state in (first, second, third)] == [False, False, True]
    make_ill(fleet, "2")
    states = fleet.fleet.shard_states()
    assert [(state.name, state.unhealthy_in, state.error) for state in states] == [
        ("1", 0, ""),
        ("2", 1, "gone"),
        ("3", 0, ""),
    ]
    assert states[1].since_ms >= second.since_ms
    assert states[0] == first
    fleet.shards["2"].error = None
    fleet.wait_until(lambda: fleet.unhealthy_shards == 0)
    well = fleet.fleet.shard_states()[1]
    assert (well.unhealthy_in, well.error) == (0, "")
    assert well.since_ms >= states[1].since_ms


@pytest.mark.parametrize("is_drained", [False, True])
def test_a_shard_that_leaves_with_what_it_has_is_warned_of(fleet, caplog, is_drained):
    fleet.update(*specs_of("1", "2"), *specs_of("3", dequeue_only=("3",) if is_drained else ()))
    fleet.update(*specs_of("1", "2"))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [message.partition(":")[0] for message in warnings] == (
        [] if is_drained else ["shard 3 was not drained (dequeueOnly) before it left"]
    )


def test_calls_of_each_shard_are_told(fleet):
    make_ill(fleet, "2")
    fleet.shards["1"].error = UnknownError("no")
    with pytest.raises(UnknownError):
        fleet.count_jobs(QUEUE, PENDING)
    told = Counter((name, is_answered) for name, _, is_answered in fleet.told)
    assert told["2", False] == MAX_FAILURES_IN_A_ROW
    assert told["1", True] > MAX_FAILURES_IN_A_ROW  # a refusal is an answer
    assert not told["1", False]
    assert all(seconds >= 0 for _, seconds, _ in fleet.told)


def test_a_shard_that_refuses_a_call_is_healthy(fleet):
    fleet.shards["1"].error = UnknownError("no")
    for _ in range(WINDOW * 2):
        with pytest.raises(UnknownError):
            fleet.count_jobs(QUEUE, PENDING)
    assert fleet.unhealthy_shards == 0


def test_health_is_a_matter_of_the_latest_outcomes():
    health = Health()
    for _ in range(MAX_FAILURES_IN_A_ROW - 1):
        health.record(is_success=False)
    health.record(is_success=True)
    assert health.is_healthy
    for _ in range(WINDOW):
        health.record(is_success=False)
        health.record(is_success=True)
    assert health.is_healthy, "one out of two"
    health.recover()
    for _ in range(WINDOW):
        for is_success in (False, False, True):
            health.record(is_success=is_success)
    assert not health.is_healthy, "two out of three"
    health.recover()
    for _ in range(WINDOW // 2):
        health.record(is_success=False)
        health.record(is_success=True)
    for _ in range(WINDOW):
        health.record(is_success=True)
    for _ in range(MAX_FAILURES_IN_A_ROW):
        assert health.is_healthy
        health.record(is_success=False)
    assert not health.is_healthy, "three in a row"


def test_shards_come_and_go_while_calls_are_under_way(fleet):
    async def scenario():
        old = fleet.shards["1"]
        old.gate = asyncio.Event()
        counting = asyncio.create_task(fleet.fleet.count_jobs(QUEUE, PENDING))
        await asyncio.sleep(0)
        fleet.fleet.update(specs_of("2", "3", "4"))
        await asyncio.sleep(0.01)
        assert not old.is_closed, "a call is under way"
        old.gate.set()
        assert await counting == 0
        await until(lambda: old.is_closed)

    two = fleet.shards["2"]
    fleet.run(scenario())
    assert fleet.shards["2"] is two, "a shard that stays as it is is not made again"
    with pytest.raises(ShardConnectionFailed, match="no shard '1'"):
        fleet.ack_dequeued_jobs(QUEUE, [ack_of(f"{QUEUE}:s1:p1:1")], [])


def test_a_removed_shard_is_not_probed_nor_said_to_be_ill(fleet, caplog):
    """Calls that have begun with it, such as a round of the monitor, still fail after it was closed."""
    old, handle = fleet.shards["1"], fleet.fleet.group.registry.find("1")
    fleet.update(*specs_of("2", "3"))
    fleet.wait_until(lambda: old.is_closed)
    old.error = ShardConnectionFailed("closed")
    for _ in range(MAX_FAILURES_IN_A_ROW):
        with pytest.raises(ShardConnectionFailed, match="closed"):
            fleet.run(handle.ask(lambda shard: shard.count_jobs(QUEUE, PENDING)))
    assert "left alone" not in caplog.text
    assert handle._recovery is None


@pytest.mark.parametrize("name", ["1", "new"], ids=["removed", "added"])
def test_only_after_a_while_a_shard_counts_as_missing_that_other_servers_may_know(fleet, monkeypatch, name):
    """Until then, clients try another server: a change of the file does not reach all servers at once."""
    job = JobDescriptor(QUEUE, name, 1, 1)
    fleet.update(*specs_of("2", "3"))
    with pytest.raises(ShardConnectionFailed, match=f"no shard '{name}'"):
        fleet.lookup_jobs([job])
    monkeypatch.setattr("pinlater.server.backends.sharded.shard_registry._SPREAD_SECONDS", -1)
    with pytest.raises(UnknownError, match=f"no shard '{name}'"):
        fleet.lookup_jobs([job])
    monkeypatch.undo()
    fleet.update(*specs_of(name, "2", "3"))
    assert fleet.lookup_jobs([job]) == [None]
    fleet.update(*specs_of("2", "3"))
    with pytest.raises(ShardConnectionFailed, match=f"no shard '{name}'"):
        fleet.lookup_jobs([job])


def test_strangers_do_not_fill_the_memory_with_names_of_shards(fleet, monkeypatch):
    monkeypatch.setattr("pinlater.server.backends.sharded.shard_registry._MOST_MISSING", 2)
    for name in ("a", "b", "c"):
        with pytest.raises(ShardConnectionFailed):
            fleet.lookup_jobs([JobDescriptor(QUEUE, name, 1, 1)])
    assert list(fleet.fleet.group.registry._missing_since) == ["b", "c"]


def test_a_shard_that_was_just_added_is_found_before_the_next_look_at_the_file(fleet):
    fleet.fleet.group.registry.look_for_changes = lambda: fleet.fleet.update(specs_of("1", "2", "3", "new"))
    fleet.fleet.group.registry.named("new")
    assert fleet.fleet.group.registry.find("newer") is None


def test_a_shard_at_another_place_is_made_anew(fleet):
    old = fleet.shards["1"]
    fleet.update(*[spec._replace(endpoint=("db2", 3306)) for spec in specs_of("1")], *specs_of("2", "3"))
    assert fleet.shards["1"] is not old
    fleet.wait_until(lambda: old.is_closed)


def test_claims_on_a_shard_that_was_added_or_moved_can_be_renewed_before_they_expire(fleet):
    moved = specs_of("1")[0]._replace(endpoint=("db2", 3306))
    fleet.update(moved, *specs_of("2", "new"))
    fleet.reap_expired(10, server_age_ms=10**12, quiet_ms=10_000)
    ages = {name: fleet.shards[name].server_age_ms for name in ("1", "2", "new")}
    assert ages["2"] == 10**12
    assert max(ages["1"], ages["new"]) < 10**12


def test_everything_is_closed_at_the_end():
    bench = FleetBench()
    bench.end()
    assert all(shard.is_closed for shard in bench.shards.values())
