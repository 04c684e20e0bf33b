"""Several shards as one store: who is asked for what, and what becomes of the answers."""

from collections import Counter

import pytest

from pinlater.errors import (
    NoHealthyShards,
    QueueNotFound,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import JobFilter, Settled, covered
from pinlater.server.backends.sharded import ShardUnreachable
from pinlater.server.backends.unavailable import ChangeRefused
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.unit.server.backends.sharded.fake_shards import specs_of
from tests.unit.server.backends.sharded.filling import CLAIM, fill


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


def test_new_and_unknown_queues_cost_the_same_however_many_others_there_are(fleet):
    fleet.create_queue("new")
    with pytest.raises(QueueNotFound):
        fleet.enqueue_jobs("unknown", [new_job()])
    fleet.enqueue_jobs("new", [new_job()])
    assert fleet.asked_for("settings") == []  # would be those of all queues


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


def test_all_jobs_of_a_key_are_on_one_shard_whatever_their_unique_keys(fleet):
    keys = [JobKey(f"key {number}") for number in range(30)]
    homes = []
    for key in keys:
        names = [fleet.enqueue_jobs(QUEUE, [new_job(key=key, unique_key=f"{number}")]) for number in range(4)]
        names.append(fleet.enqueue_jobs(QUEUE, [new_job(key=key)]))
        (home,) = {JobDescriptor.parse(name).shard for (name,) in names}
        homes.append(home)
    assert set(homes) == {"1", "2", "3"}
    together = fleet.enqueue_jobs(QUEUE, [new_job(key=key) for key in keys])
    assert [JobDescriptor.parse(name).shard for name in together] == homes


def test_imported_jobs_go_to_the_shard_of_their_key_in_each_state(fleet):
    names = fleet.enqueue_jobs(QUEUE, [new_job()])
    [record] = fleet.lookup_jobs([JobDescriptor.parse(names[0])], body_bytes=1_000_000)
    for number in range(10):
        key = JobKey(f"key {number}")
        given = [record._replace(key=key, state=state) for state in (PENDING, IN_PROGRESS, SUCCEEDED, FAILED)]
        names = [*fleet.enqueue_jobs(QUEUE, [new_job(key=key)]), *fleet.import_jobs(QUEUE, [*given, record])[:4]]
        assert len({JobDescriptor.parse(name).shard for name in names}) == 1


def test_jobs_with_keys_are_stored_before_those_that_may_not_be_stored_twice(fleet):
    jobs = [new_job(b"plain"), *[new_job(unique_key=f"key {number}") for number in range(9)]]
    names = fleet.enqueue_jobs(QUEUE, jobs)
    bodies = [record.body for record in fleet.lookup_jobs([*map(JobDescriptor.parse, names)], body_bytes=1_000_000)]
    assert bodies == [job.body for job in jobs]
    assert fleet.asked_for("enqueue")[-1] == JobDescriptor.parse(names[0]).shard
    fleet.asked.clear()
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed):
        fleet.enqueue_jobs(QUEUE, jobs)
    assert fleet.asked_for("enqueue") == []


@pytest.mark.parametrize("names", ["1", "123"])
def test_jobs_without_keys_go_with_those_that_a_key_places(fleet, names):
    fleet.update(*specs_of(*names))
    jobs = [new_job(b"0"), new_job(b"1", key=JobKey("ada")), new_job(b"2"), new_job(b"3", key=JobKey("ada"))]
    stored = fleet.lookup_jobs(list(map(JobDescriptor.parse, fleet.enqueue_jobs(QUEUE, jobs))))
    assert [one.body for one in stored] == [b"0", b"1", b"2", b"3"]
    assert [verb for _, verb in fleet.asked if verb in {"ping", "enqueue"}] == ["enqueue"]


def test_a_batch_that_cannot_be_stored_whole_is_not_stored_at_all(fleet):
    jobs = [new_job(b"plain"), *[new_job(unique_key=f"key {number}") for number in range(30)]]
    for broken in fleet.shards.values():
        for error in (ShardConnectionFailed("gone"), ShardUnreachable("gone"), UnknownError("no space")):
            broken.error = error
            with pytest.raises(ShardUnreachable, match=f"no job of the batch was stored, .* shard {broken.name} "):
                fleet.enqueue_jobs(QUEUE, jobs)
            broken.error = None
            assert fleet.count_jobs(QUEUE, JobFilter(PENDING)) == 0
    assert len(fleet.enqueue_jobs(QUEUE, jobs)) == fleet.count_jobs(QUEUE, JobFilter(PENDING)) == 31


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
    records = fleet.lookup_jobs([JobDescriptor.parse(names[0])], body_bytes=1_000_000) * 3
    records[1] = records[1]._replace(unique="one")
    records[2] = records[2]._replace(unique="one", state=FAILED)
    imported = fleet.import_jobs(QUEUE, records)
    shards = [JobDescriptor.parse(name).shard for name in imported]
    (again,) = fleet.import_jobs(QUEUE, records[1:2])
    assert JobDescriptor.parse(again).shard == shards[1]
    assert shards[0] == shards[2], "a finished job has no key any more"


def test_no_shard_that_takes_jobs_is_a_clear_error(fleet):
    fleet.update(*specs_of("1", "2", dequeue_only=("1", "2")))
    with pytest.raises(NoHealthyShards):
        fleet.enqueue_jobs(QUEUE, [new_job()])


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
        asked = fleet.asked_for("due_priorities") or fleet.asked_for("dequeue")
        assert len(asked) == shards
        seen |= set(asked)
    assert seen == {"1", "2", "3"}


@pytest.mark.parametrize("coverage", [0.17, 0.5])
def test_shards_that_are_not_asked_may_have_more(fleet, coverage):
    fill(fleet, 1, 1, 1)
    for _ in range(2):
        taken = fleet.dequeue_jobs(QUEUE, 1, CLAIM._replace(coverage=coverage), want_next_due=True)
        assert taken.has_more or not taken.jobs


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
    fleet.shards["2"].error = UnknownError("broken")
    assert len(fleet.dequeue_jobs(QUEUE, 9, CLAIM).jobs) == 2
    assert "broken" in caplog.text
    with pytest.raises(UnknownError, match="broken"):
        fleet.dequeue_jobs(QUEUE, 9, CLAIM)


def test_peeking_goes_on_to_the_next_shard(fleet):
    fill(fleet, 1, 1, 1)
    assert len(fleet.peek_jobs(QUEUE, 2)) == 2
    assert len(fleet.peek_jobs(QUEUE, 9)) == 3


def test_acks_and_checkpoints_go_to_the_shard_of_their_job(fleet):
    names = [f"{QUEUE}:s{shard}:p1:{number}" for number in (1, 2) for shard in "12"]
    assert fleet.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in names[:3]], [ack_of(names[3])]) == Settled(
        3, 1, 100
    )
    assert sorted(fleet.asked_for("ack")) == ["1", "2"]
    assert fleet.checkpoint_jobs(QUEUE, [checkpoint_of(name) for name in names]) == Settled(4, 0)
    assert sorted(fleet.asked_for("checkpoint")) == ["1", "2"]
    assert fleet.ack_dequeued_jobs(QUEUE, [], []) == Settled(0, 0)


def test_an_ack_or_checkpoint_for_no_shard_does_not_spoil_the_others(fleet):
    names = [f"{QUEUE}:s{shard}:p1:1" for shard in ("1", "x", "2")]
    with pytest.raises(ShardConnectionFailed, match="no shard 'x'"):
        fleet.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in names], [])
    assert sorted(fleet.asked_for("ack")) == ["1", "2"]
    with pytest.raises(ShardConnectionFailed, match="no shard 'x'"):
        fleet.checkpoint_jobs(QUEUE, [checkpoint_of(name) for name in names])
    assert sorted(fleet.asked_for("checkpoint")) == ["1", "2"]


@pytest.mark.parametrize("error", [ShardConnectionFailed("not now"), ChangeRefused("not now")])
def test_acks_are_told_again_for_a_shard_that_is_away_or_full_though_another_refuses(fleet, error):
    fleet.shards["2"].error = error
    for refusing in ("1", "3"):
        fleet.shards[refusing].error = UnknownError("never")
        with pytest.raises(type(error), match="not now"):
            fleet.ack_dequeued_jobs(QUEUE, [ack_of(f"{QUEUE}:s{shard}:p1:1") for shard in "123"], [])
        fleet.shards[refusing].error = None


def test_an_ack_for_a_dead_shard_is_an_error_and_the_others_are_done(fleet):
    fleet.shards["1"].error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed, match="gone"):
        fleet.ack_dequeued_jobs(QUEUE, [ack_of(f"{QUEUE}:s{shard}:p1:1") for shard in "12"], [])
    assert sorted(fleet.asked_for("ack")) == ["1", "2"]


def test_lookups_come_back_in_the_order_asked(fleet):
    names = fill(fleet, 2, 2, 2)
    wanted = [names[5], names[0], f"{QUEUE}:s2:p1:99", names[3], names[1]]
    found = fleet.lookup_jobs([JobDescriptor.parse(name) for name in wanted], body_bytes=1_000_000)
    assert [record and record.descriptor for record in found] == [*wanted[:2], None, *wanted[3:]]
    with pytest.raises(ShardConnectionFailed, match="no shard 'x'"):
        fleet.lookup_jobs([JobDescriptor(QUEUE, "x", 1, 1)], body_bytes=1_000_000)
