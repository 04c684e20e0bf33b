"""Several shards as one store: who is asked for what, and what becomes of the answers."""

import asyncio
from collections import Counter

import pytest

from pinlater.descriptor import JobDescriptor
from pinlater.errors import (
    NoHealthyShards,
    QueueNotFound,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.server.backends.contract import Claim, JobFilter, Position, covered
from pinlater.server.backends.fleet import ShardUnreachable, asking, storing
from pinlater.server.backends.fleet.health import MOST_IN_A_ROW, WINDOW, Health
from pinlater.server.rules import read_continuation, write_continuation
from pinlater.wire.messages import FAILED
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.unit.fleet_fakes import ADDRESS, FleetBench, specs_of

CLAIM = Claim("host:1:1:worker:1", 1000)
PENDING = JobFilter(0)


@pytest.fixture
def fleet():
    bench = FleetBench()
    bench.create_queue(QUEUE)
    bench.asked.clear()
    yield bench
    bench.end()


def fill(fleet, *per_shard):
    """Put so many jobs straight onto each shard."""
    return [
        name
        for shard, count in zip(fleet.shards.values(), per_shard, strict=True)
        for name in fleet.run(shard.enqueue_jobs(QUEUE, [new_job() for _ in range(count)]))
    ]


def make_ill(fleet, name):
    fleet.shards[name].error = ShardConnectionFailed("gone")
    while fleet.ill_shards == 0:
        fleet.count_jobs(QUEUE, PENDING)


# Enqueue


def test_batches_are_spread_over_the_shards_that_take_jobs(fleet):
    fleet.update(*specs_of("1", "2", "3", dequeue_only=("3",)))
    batches = [fleet.enqueue_jobs(QUEUE, [new_job(), new_job()]) for _ in range(60)]
    shards = [{JobDescriptor.parse(name).shard for name in batch} for batch in batches]
    assert all(len(shard) == 1 for shard in shards), "a batch is stored whole, so on one shard"
    spread = Counter(shard for one in shards for shard in one)
    assert spread.keys() == {"1", "2"}
    assert min(spread.values()) > 5


def test_what_did_not_reach_a_shard_goes_to_another(fleet):
    fleet.shards["1"].error = fleet.shards["2"].error = ShardUnreachable("refused")
    for _ in range(10):
        assert fleet.enqueue_jobs(QUEUE, [new_job()])[0].startswith(f"{QUEUE}:s3:")


def test_what_may_have_been_stored_is_not_stored_again(fleet):
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("lost while it was under way")
    with pytest.raises(ShardConnectionFailed, match="under way"):
        fleet.enqueue_jobs(QUEUE, [new_job()])
    assert len(fleet.asked_for("enqueue")) == 1


def test_a_unique_key_always_means_the_same_shard(fleet):
    keys = [f"key {number}" for number in range(30)]
    homes = []
    for key in keys:
        names = [fleet.enqueue_jobs(QUEUE, [new_job(unique_key=key)]) for _ in range(3)]
        (home,) = {JobDescriptor.parse(name).shard for (name,) in names}
        homes.append(home)
    assert set(homes) == {"1", "2", "3"}
    together = fleet.enqueue_jobs(QUEUE, [new_job(unique_key=key) for key in keys])
    assert [JobDescriptor.parse(name).shard for name in together] == homes
    fleet.update(*specs_of("1", "2", "3", "4"))
    fleet.create_queue(QUEUE)
    moved = [JobDescriptor.parse(fleet.enqueue_jobs(QUEUE, [new_job(unique_key=key)])[0]).shard for key in keys]
    assert all(after in {before, "4"} for before, after in zip(homes, moved, strict=True))


def test_jobs_with_keys_are_stored_before_those_that_may_not_be_stored_twice(fleet):
    jobs = [new_job(b"plain"), *[new_job(unique_key=f"key {number}") for number in range(9)]]
    names = fleet.enqueue_jobs(QUEUE, jobs)
    bodies = [record.body for record in fleet.lookup_jobs([*map(JobDescriptor.parse, names)], include_body=True)]
    assert bodies == [job.body for job in jobs]
    fleet.asked.clear()
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed):
        fleet.enqueue_jobs(QUEUE, jobs)
    assert len(fleet.asked_for("enqueue")) == 1


def test_a_key_whose_shard_is_dead_goes_to_no_other(fleet):
    (name,) = fleet.enqueue_jobs(QUEUE, [new_job(unique_key="one")])
    home = fleet.shards[JobDescriptor.parse(name).shard]
    home.error = ShardUnreachable("gone")
    with pytest.raises(ShardUnreachable):
        fleet.enqueue_jobs(QUEUE, [new_job(unique_key="one")])
    home.error = None
    assert len(fleet.enqueue_jobs(QUEUE, [new_job(unique_key="one")])) == 1


def test_imported_jobs_are_spread_too(fleet):
    names = fleet.enqueue_jobs(QUEUE, [new_job()])
    records = fleet.lookup_jobs([JobDescriptor.parse(names[0])], include_body=True) * 3
    records[1] = records[1]._replace(unique_key="one")
    records[2] = records[2]._replace(unique_key="one", state=FAILED)
    imported = fleet.import_jobs(QUEUE, records)
    shards = [JobDescriptor.parse(name).shard for name in imported]
    (again,) = fleet.import_jobs(QUEUE, records[1:2])
    assert JobDescriptor.parse(again).shard == shards[1]
    assert shards[0] == shards[2], "a finished job has no key any more"


def test_no_shard_that_takes_jobs_is_a_clear_error(fleet):
    fleet.update(*specs_of("1", "2", dequeue_only=("1", "2")))
    with pytest.raises(NoHealthyShards):
        fleet.enqueue_jobs(QUEUE, [new_job()])


# Dequeue


def test_a_dequeue_asks_until_it_has_enough(fleet):
    names = fill(fleet, 5, 5, 5)
    taken = fleet.dequeue_jobs(QUEUE, 7, CLAIM)
    assert (len(taken.jobs), taken.has_more) == (7, True)
    rest = fleet.dequeue_jobs(QUEUE, 10, CLAIM)
    assert (len(rest.jobs), rest.has_more) == (8, False)
    assert sorted(job.descriptor for job in (*taken.jobs, *rest.jobs)) == sorted(names)


@pytest.mark.parametrize(("coverage", "shards"), [(1.0, 3), (0.84, 3), (0.83, 2), (0.5, 2), (0.49, 1), (0.17, 1)])
def test_a_share_of_the_shards_is_asked_each_time_another(fleet, coverage, shards):
    assert covered(coverage, 3) == shards
    seen = set()
    for _ in range(40):
        fleet.asked.clear()
        fleet.dequeue_jobs(QUEUE, 5, CLAIM._replace(coverage=coverage))
        assert len(fleet.asked_for("dequeue")) == shards
        seen |= set(fleet.asked_for("dequeue"))
    assert seen == {"1", "2", "3"}


def test_the_first_shard_asked_is_another_each_time(fleet):
    fill(fleet, 50, 50, 50)
    for _ in range(40):
        fleet.dequeue_jobs(QUEUE, 1, CLAIM)
    assert set(fleet.asked_for("dequeue")) == {"1", "2", "3"}


def test_the_next_due_time_is_that_of_the_first_of_all_shards(fleet):
    fleet.shards["1"].next_due_ms, fleet.shards["3"].next_due_ms = 500, 300
    assert fleet.dequeue_jobs(QUEUE, 1, CLAIM, want_next_due=True).next_due_ms == 300


def test_an_answer_is_not_overfilled_by_the_next_shard(fleet):
    for shard in fleet.shards.values():
        fleet.run(shard.enqueue_jobs(QUEUE, [new_job(b"x" * 6000)]))
    taken = fleet.dequeue_jobs(QUEUE, 10, CLAIM, max_bytes=10_000)
    assert (len(taken.jobs), taken.has_more) == (1, True)


def test_what_was_claimed_before_a_shard_failed_is_handed_out(fleet, caplog):
    fill(fleet, 1, 1, 1)
    for _ in range(20):
        fleet.shards["2"].error = UnknownError("broken")
        fleet.shards["2"].asked.clear()
        try:
            jobs = fleet.dequeue_jobs(QUEUE, 9, CLAIM).jobs
        except UnknownError:
            assert fleet.asked_for("dequeue") == ["2"]
            continue
        if jobs:
            break
    assert jobs
    assert "broken" in caplog.text


def test_peeking_goes_on_to_the_next_shard(fleet):
    fill(fleet, 1, 1, 1)
    assert len(fleet.peek_jobs(QUEUE, 2)) == 2
    assert len(fleet.peek_jobs(QUEUE, 9)) == 3


# By descriptor


def test_acks_and_checkpoints_go_to_the_shard_of_their_job(fleet):
    names = [f"{QUEUE}:s{shard}:p1:{number}" for number in (1, 2) for shard in "12"]
    assert fleet.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in names[:3]], [ack_of(names[3])]) == (3, 1, 100)
    assert sorted(fleet.asked_for("ack")) == ["1", "2"]
    assert fleet.checkpoint_jobs(QUEUE, [checkpoint_of(name) for name in names]) == (4, 0, None)
    assert sorted(fleet.asked_for("checkpoint")) == ["1", "2"]
    assert fleet.ack_dequeued_jobs(QUEUE, [], []) == (0, 0, None)


def test_an_ack_for_no_shard_does_not_spoil_the_others(fleet):
    acks = [ack_of(f"{QUEUE}:s{shard}:p1:1") for shard in ("1", "x", "2")]
    with pytest.raises(UnknownError, match="no shard 'x'"):
        fleet.ack_dequeued_jobs(QUEUE, acks, [])
    assert sorted(fleet.asked_for("ack")) == ["1", "2"]
    with pytest.raises(UnknownError, match="no shard 'x'"):
        fleet.checkpoint_jobs(QUEUE, [checkpoint_of(f"{QUEUE}:s{shard}:p1:1") for shard in ("1", "x")])
    assert fleet.asked_for("checkpoint") == []


def test_an_ack_for_a_dead_shard_is_an_error_and_the_others_are_done(fleet):
    fleet.shards["1"].error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed, match="gone"):
        fleet.ack_dequeued_jobs(QUEUE, [ack_of(f"{QUEUE}:s{shard}:p1:1") for shard in "12"], [])
    assert sorted(fleet.asked_for("ack")) == ["1", "2"]


def test_lookups_come_back_in_the_order_asked(fleet):
    names = fill(fleet, 2, 2, 2)
    wanted = [names[5], names[0], f"{QUEUE}:s2:p1:99", names[3], names[1]]
    found = fleet.lookup_jobs([JobDescriptor.parse(name) for name in wanted], include_body=True)
    assert [record and record.descriptor for record in found] == [*wanted[:2], None, *wanted[3:]]
    with pytest.raises(UnknownError, match="no shard 'x'"):
        fleet.lookup_jobs([JobDescriptor(QUEUE, "x", 1, 1)], include_body=True)


# Sums


def test_chosen_jobs_are_retried_and_deleted_where_they_are(fleet):
    names = [JobDescriptor.parse(name) for name in fill(fleet, 2, 0, 1)]
    for call, verb in (
        (lambda jobs, queue=QUEUE: fleet.retry_these_jobs(queue, jobs, 1, None), "retry these"),
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
        with pytest.raises(UnknownError, match="nowhere"):
            call([names[0]._replace(shard="nowhere")])
        fleet.run(fleet.shards["3"].delete_queue(QUEUE))
        assert call(names) == 2
        fleet.shards["1"].error = ShardConnectionFailed("gone")
        with pytest.raises(ShardConnectionFailed):
            call(names)
        fleet.shards["1"].error = None
        fleet.run(fleet.shards["3"].create_queue(QUEUE))


def test_numbers_are_summed(fleet):
    fill(fleet, 3, 4, 5)
    assert fleet.count_jobs(QUEUE, PENDING) == 12
    assert fleet.release_claims(QUEUE, "worker") == 6
    assert fleet.reap_expired(10, server_age_ms=1, quiet_ms=1) == [(QUEUE, 3, 6)]
    assert fleet.collect_finished(1, 1, 10) == [(QUEUE, 9, 0)]


def test_a_limit_holds_over_all_shards(fleet):
    assert fleet.retry_failed_jobs(QUEUE, 1, 1, None, 5) == 5
    assert len(fleet.asked_for("retry")) == 2
    assert fleet.retry_failed_jobs(QUEUE, 1, 1, None, 100) == 9
    fill(fleet, 3, 4, 5)
    assert fleet.delete_jobs(QUEUE, PENDING, 8) == 8
    assert fleet.delete_jobs(QUEUE, PENDING, 0) == 0
    assert fleet.count_jobs(QUEUE, PENDING) == 4


# Scans


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


# Queues


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
    assert fleet.ill_shards == 0


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
    monkeypatch.setattr(asking, "PATIENCE_SECONDS", -1.0)
    assert len(fleet.dequeue_jobs(QUEUE, 9, CLAIM).jobs) == 1
    monkeypatch.setattr(storing, "PATIENCE_SECONDS", -1.0)
    for shard in fleet.shards.values():
        shard.error = ShardUnreachable("refused")
    fleet.asked.clear()
    with pytest.raises(NoHealthyShards):
        fleet.enqueue_jobs(QUEUE, [new_job()])
    assert len(fleet.asked_for("enqueue")) == 1


# Health


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
    fleet.wait_until(lambda: fleet.ill_shards == 0)
    assert fleet.count_jobs(QUEUE, PENDING) == 2


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
    ):
        with pytest.raises(NoHealthyShards):
            call()
    for shard in fleet.shards.values():
        shard.error = None
    fleet.wait_until(lambda: fleet.ill_shards == 0)
    assert fleet.count_jobs(QUEUE, PENDING) == 0


def test_each_shard_says_how_it_is_and_since_when(fleet):
    fleet.update(*specs_of("1", "2", "3", dequeue_only=("3",)))
    first, second, third = fleet.fleet.shard_states()
    assert (first.name, first.place, first.ill_in, first.error, first.connections) == ("1", str(ADDRESS), 0, "", 1)
    assert [state.is_dequeue_only for state in (first, second, third)] == [False, False, True]
    make_ill(fleet, "2")
    states = fleet.fleet.shard_states()
    assert [(state.name, state.ill_in, state.error) for state in states] == [
        ("1", 0, ""),
        ("2", 1, "gone"),
        ("3", 0, ""),
    ]
    assert states[1].since_ms >= second.since_ms
    assert states[0] == first
    fleet.shards["2"].error = None
    fleet.wait_until(lambda: fleet.ill_shards == 0)
    well = fleet.fleet.shard_states()[1]
    assert (well.ill_in, well.error) == (0, "")
    assert well.since_ms >= states[1].since_ms


def test_calls_of_each_shard_are_told(fleet):
    make_ill(fleet, "2")
    fleet.shards["1"].error = UnknownError("no")
    with pytest.raises(UnknownError):
        fleet.count_jobs(QUEUE, PENDING)
    told = Counter((name, is_answered) for name, _, is_answered in fleet.told)
    assert told["2", False] == MOST_IN_A_ROW
    assert told["1", True] > MOST_IN_A_ROW  # a refusal is an answer
    assert not told["1", False]
    assert all(seconds >= 0 for _, seconds, _ in fleet.told)


def test_a_shard_that_refuses_is_not_ill(fleet):
    fleet.shards["1"].error = UnknownError("no")
    for _ in range(WINDOW * 2):
        with pytest.raises(UnknownError):
            fleet.count_jobs(QUEUE, PENDING)
    assert fleet.ill_shards == 0


def test_health_is_a_matter_of_the_latest_outcomes():
    health = Health()
    for _ in range(MOST_IN_A_ROW - 1):
        health.note(is_success=False)
    health.note(is_success=True)
    assert health.is_well
    for _ in range(WINDOW):
        health.note(is_success=False)
        health.note(is_success=True)
    assert health.is_well, "one out of two"
    health.recover()
    for _ in range(WINDOW):
        for is_success in (False, False, True):
            health.note(is_success=is_success)
    assert not health.is_well, "two out of three"
    health.recover()
    for _ in range(WINDOW // 2):
        health.note(is_success=False)
        health.note(is_success=True)
    for _ in range(WINDOW):
        health.note(is_success=True)
    for _ in range(MOST_IN_A_ROW):
        assert health.is_well
        health.note(is_success=False)
    assert not health.is_well, "three in a row"


# The file of shards


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
        while not old.is_closed:
            await asyncio.sleep(0.01)

    two = fleet.shards["2"]
    fleet.run(scenario())
    assert fleet.shards["2"] is two, "a shard that stays as it is is not made again"
    with pytest.raises(UnknownError, match="no shard '1'"):
        fleet.ack_dequeued_jobs(QUEUE, [ack_of(f"{QUEUE}:s1:p1:1")], [])


def test_a_shard_at_another_place_is_made_anew(fleet):
    old = fleet.shards["1"]
    fleet.update(*[spec._replace(place=("db2", 3306)) for spec in specs_of("1")], *specs_of("2", "3"))
    assert fleet.shards["1"] is not old
    fleet.wait_until(lambda: old.is_closed)


def test_everything_is_closed_at_the_end():
    bench = FleetBench()
    bench.end()
    assert all(shard.is_closed for shard in bench.shards.values())
