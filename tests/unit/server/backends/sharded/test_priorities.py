"""Priorities over shards: the first one of all shards comes before the second of any."""

import asyncio
import contextlib
import time

import pytest

from pinlater.errors import NoHealthyShards, ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.records import Claim, Dequeued
from pinlater.server.backends.sharded import ShardUnreachable, due_priorities
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.unit.server.backends.sharded.fake_shards import FleetBench, specs_of

CLAIM = Claim("host:1:1:worker:1", 1000)


class Priorities(FleetBench):
    def take(self, limit):
        """Claim jobs as a broker does."""
        return self.dequeue_jobs(QUEUE, limit, CLAIM, want_next_due=True).jobs


@pytest.fixture
def unfresh(monkeypatch):
    """What was read is old at once."""
    monkeypatch.setattr("pinlater.server.backends.sharded.due_priorities.FRESH_SECONDS", -1)


@pytest.fixture
def fleet():
    bench = Priorities(*specs_of("1", "2", "3", "4"))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()


def put(fleet, shard, *priorities):
    fleet.run(fleet.shards[shard].enqueue_jobs(QUEUE, [new_job(priority=priority) for priority in priorities]))


@contextlib.contextmanager
def failing(shard, error):
    """Let a shard hand out no jobs; it still tells what is due."""

    async def fail(*arguments, **options):
        raise error

    shard.dequeue_jobs = fail
    yield
    del shard.dequeue_jobs


def priorities(jobs):
    return [JobDescriptor.parse(job.descriptor).priority for job in jobs]


def spread(fleet):
    """Store 60 jobs of priority 3 and 12 of priority 1, unevenly."""
    for shard, few in zip("1234", (1, 9, 0, 2), strict=True):
        put(fleet, shard, *[3] * 15, *[1] * few)


@pytest.mark.parametrize("limit", [1, 5, 72])
def test_the_first_priority_of_all_shards_comes_first(fleet, limit):
    spread(fleet)
    taken = []
    while len(taken) < 72:
        taken += priorities(fleet.dequeue_jobs(QUEUE, limit, CLAIM).jobs)
    assert taken == [1] * 12 + [3] * 60


def shards_of(jobs):
    return [JobDescriptor.parse(job.descriptor).shard for job in jobs]


def test_the_shards_of_a_priority_take_turns(fleet):
    for shard in "1234":
        put(fleet, shard, *[1] * 8)
    taken = [shards_of(fleet.take(1))[0] for _ in range(32)]
    assert all(set(taken[start : start + 4]) == set("1234") for start in range(0, 32, 4))


def test_a_shard_that_was_idle_comes_before_one_that_was_asked_meanwhile(fleet):
    """However many jobs another shard has: a key with a million jobs, all on one, does not hold up the others."""
    put(fleet, "1", *[1] * 40)
    for _ in range(8):
        fleet.take(1)
        put(fleet, "3", 1)
        fleet.fleet.jobs_arrived(QUEUE, None, [JobLocation("3", 1)])
        assert shards_of(fleet.take(1)) == ["3"]


def test_turns_outlast_what_was_read(fleet):
    for shard in "12":
        put(fleet, shard, *[1] * 8)
    taken = []
    for _ in range(8):
        taken += shards_of(fleet.take(1))
        fleet.fleet.jobs_arrived(QUEUE, None, [])
    assert sorted(taken[:2]) == ["1", "2"]
    assert taken == taken[:2] * 4


def test_turns_of_deleted_queues_are_forgotten(fleet):
    put(fleet, "1", 1)
    fleet.take(1)
    turns = fleet.fleet.group.due_priorities._asked
    assert QUEUE in turns
    fleet.fleet.apply_settings({})
    assert not turns


@pytest.mark.parametrize("limit", [1, 12, 40, 72])
def test_a_dry_run_shows_them_in_the_same_order(fleet, limit):
    spread(fleet)
    assert priorities(fleet.peek_jobs(QUEUE, limit)) == ([1] * 12 + [3] * 60)[:limit]


def test_shards_without_the_priority_are_not_asked_to_claim(fleet):
    put(fleet, "1", 2)
    put(fleet, "3", 1)
    assert priorities(fleet.dequeue_jobs(QUEUE, 1, CLAIM).jobs) == [1]
    assert fleet.asked_for("dequeue") == ["3"]


def test_an_idle_queue_is_read_once_per_shard_and_never_with_one_shard(fleet):
    assert fleet.dequeue_jobs(QUEUE, 1, CLAIM).jobs == []
    assert (sorted(fleet.asked_for("due_priorities")), fleet.asked_for("dequeue")) == (["1", "2", "3", "4"], [])
    fleet.update(*specs_of("1"))
    fleet.asked.clear()
    put(fleet, "1", 2, 1)
    assert priorities(fleet.dequeue_jobs(QUEUE, 5, CLAIM).jobs) == [1, 2]
    assert (fleet.asked_for("due_priorities"), fleet.asked_for("dequeue")) == ([], ["1"])


def test_many_dequeues_share_one_read_and_miss_no_new_job(fleet):
    for shard in "1234":
        put(fleet, shard, *[2] * 20)
    for _ in range(20):
        assert priorities(fleet.take(2)) == [2, 2]
    assert len(fleet.asked_for("due_priorities")) == 4
    fleet.enqueue_jobs(QUEUE, [new_job(priority=1)])
    assert priorities(fleet.take(2)) == [1, 2]
    assert len(fleet.asked_for("due_priorities")) == 4
    while fleet.take(7):
        pass
    put(fleet, "3", 3)  # of another server: nothing is never remembered
    assert priorities(fleet.take(2)) == [3]


@pytest.fixture
def busy(fleet):
    """Names of three queues with jobs on all shards, in use."""
    names = ["first", "second", "third"]
    for name in names:
        fleet.create_queue(name)
        for shard in "1234":
            fleet.run(fleet.shards[shard].enqueue_jobs(name, [new_job(priority=2) for _ in range(20)]))
        assert len(take_from(fleet, name)) == 1
        assert len(take_from(fleet, name)) == 1
    fleet.asked.clear()
    return names


def take_from(fleet, queue):
    return fleet.dequeue_jobs(queue, 1, CLAIM, want_next_due=True).jobs


def reads(fleet):
    return len(fleet.asked_for("due_priorities"))


def test_busy_queues_that_will_soon_be_too_old_are_read_together(fleet, busy, monkeypatch):
    started = time.monotonic()
    monkeypatch.setattr(due_priorities.time, "monotonic", lambda: started + 2.0)  # of 2.25 s
    assert fleet.first_due([QUEUE]) == {QUEUE: None}
    fleet.dequeue_jobs(QUEUE, 1, CLAIM, want_next_due=True)
    fleet.asked.clear()
    monkeypatch.setattr(due_priorities.time, "monotonic", lambda: started + 3.0)
    for name in busy:
        assert len(take_from(fleet, name)) == 1
    assert reads(fleet) == 0
    monkeypatch.setattr(due_priorities.time, "monotonic", lambda: started + 10.0)
    for name in busy:
        assert len(take_from(fleet, name)) == 1
    assert reads(fleet) == 3 * 4  # too old by far, so perhaps not in use any more


def test_busy_queues_with_jobs_at_unknown_places_are_read_together(fleet, busy):
    for name in busy:
        fleet.run(fleet.shards["1"].enqueue_jobs(name, [new_job(priority=1)]))
        fleet.fleet.jobs_arrived(name, None, [])
    assert [priorities(take_from(fleet, name)) for name in busy] == [[1], [1], [1]]
    assert reads(fleet) == 4


def test_a_dequeue_waits_for_the_read_of_a_few_other_queues_only(fleet, busy, monkeypatch):
    monkeypatch.setattr(due_priorities, "MOST_READ_TOGETHER", 2)
    for name in busy:
        fleet.fleet.jobs_arrived(name, None, [])
    fleet.take(1)
    for name, total in zip(busy, (4, 8, 8), strict=True):  # the first was read then, the third with the second
        assert len(take_from(fleet, name)) == 1
        assert reads(fleet) == total


def test_reads_at_the_same_time_do_not_read_the_same_other_queues(fleet, busy, monkeypatch):
    started = time.monotonic()
    monkeypatch.setattr(due_priorities.time, "monotonic", lambda: started + 2.0)  # of 2.25 s
    known, asked = fleet.fleet.group.due_priorities, []
    handles = fleet.fleet.group.healthy()

    async def note(queues, _):
        asked.append(queues)
        return dict.fromkeys(queues)

    monkeypatch.setattr(known, "read_all", note)
    for name in ("x", "y"):
        fleet.run(known.read(name, handles))
        for other in busy:
            assert known.get(other, handles) is not None
    assert asked == [["x", *busy], ["y"]]


def test_nothing_is_kept_of_queues_that_nobody_has_read_for_long(fleet, busy, monkeypatch):
    fleet.fleet.jobs_arrived(busy[0], None, [])
    started, known = time.monotonic(), fleet.fleet.group.due_priorities
    monkeypatch.setattr(due_priorities.time, "monotonic", lambda: started + 3.0)
    fleet.take(1)
    assert (known._known.keys(), known._dropped) == ({QUEUE}, {})


def test_a_queue_that_was_not_used_since_it_was_read_is_not_read_with_others(fleet, busy):
    fleet.first_due(busy)
    for name in busy:
        fleet.fleet.jobs_arrived(name, None, [])
    fleet.asked.clear()
    for name in busy:
        assert len(take_from(fleet, name)) == 1
    assert reads(fleet) == 3 * 4


def test_a_job_that_comes_to_an_idle_queue_is_claimed_without_asking_the_other_shards(fleet):
    assert fleet.first_due([QUEUE]) == {QUEUE: None}  # a poll
    [name] = fleet.enqueue_jobs(QUEUE, [new_job(priority=3)])
    fleet.asked.clear()
    assert [job.descriptor for job in fleet.take(10)] == [name]
    assert fleet.asked == [(JobDescriptor.parse(name).shard, "dequeue")]


def test_a_job_of_another_server_is_claimed_without_asking_the_other_shards(fleet):
    fleet.first_due([QUEUE])
    put(fleet, "3", 2)
    fleet.fleet.jobs_arrived(QUEUE, None, [JobLocation("3", 2)])
    fleet.asked.clear()
    assert priorities(fleet.take(10)) == [2]
    assert fleet.asked == [("3", "dequeue")]


def test_a_job_of_unknown_priority_is_claimed_so_only_where_no_other_may_come_before_it(fleet):
    fleet.first_due([QUEUE])
    put(fleet, "3", 2)
    fleet.fleet.jobs_arrived(QUEUE, None, [JobLocation("3", None)])
    fleet.asked.clear()
    levels, dequeue = [], fleet.shards["3"].dequeue_jobs

    def noting(*arguments, **options):
        levels.append(options["levels"])
        return dequeue(*arguments, **options)

    fleet.shards["3"].dequeue_jobs = noting
    assert priorities(fleet.take(10)) == [2]
    assert (fleet.asked, levels) == ([("3", "dequeue")], [None])  # some stores walk through all levels that are named
    for shard, priority in (("3", 2), ("4", 1)):
        put(fleet, shard, priority)
        fleet.fleet.jobs_arrived(QUEUE, None, [JobLocation(shard, None)])
    assert priorities(fleet.take(1)) == [1]


@pytest.mark.parametrize("locations", [[], [JobLocation("9", 1)]])
def test_if_it_is_not_known_where_a_job_is_all_shards_are_asked(fleet, locations):
    put(fleet, "1", 3)
    fleet.first_due([QUEUE])
    put(fleet, "2", 1)
    fleet.fleet.jobs_arrived(QUEUE, None, locations)
    assert priorities(fleet.take(1)) == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda fleet, jobs: fleet.ack_dequeued_jobs(QUEUE, [], [ack_of(job) for job in jobs]),
        lambda fleet, jobs: fleet.checkpoint_jobs(QUEUE, [checkpoint_of(job) for job in jobs]),
        lambda fleet, jobs: fleet.cancel_jobs(QUEUE, [JobDescriptor.parse(job) for job in jobs], ""),
    ],
)
def test_so_they_are_after_a_change_that_only_some_shards_have_made(fleet, change):
    put(fleet, "1", 3)
    fleet.first_due([QUEUE])
    put(fleet, "2", 1)  # by a part of the change
    fleet.shards["3"].error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed):
        change(fleet, [f"{QUEUE}:s2:p1:1", f"{QUEUE}:s3:p1:1"])
    fleet.shards["3"].error = None
    assert priorities(fleet.take(1)) == [1]


def test_nothing_is_kept_of_a_queue_that_another_server_has_deleted(fleet):
    fleet.first_due([QUEUE])
    assert fleet.fleet.group.due_priorities._known.keys() == {QUEUE}
    for shard in fleet.shards.values():
        fleet.run(shard.delete_queue(QUEUE))
    fleet.fleet.apply_settings(fleet.changed_queue_settings())
    assert not fleet.fleet.group.due_priorities._known


def test_so_they_are_after_notifications_were_lost(fleet):
    put(fleet, "1", 3)
    fleet.first_due([QUEUE])
    put(fleet, "2", 1)
    fleet.fleet.notifications_lost()
    assert priorities(fleet.take(1)) == [1]


@pytest.mark.usefixtures("unfresh")
def test_a_job_that_falls_due_is_not_forgotten_behind_those_that_are_known(fleet):
    put(fleet, "1", *[3] * 5)
    now = fleet.now_ms = 1000
    fleet.shards["2"].next_due_ms = now + 10
    assert priorities(fleet.take(1)) == [3]
    put(fleet, "2", 1)  # it is due in 10 ms; this shard hands out whatever it has
    assert priorities(fleet.take(1)) == [3]
    fleet.now_ms = now + 10
    assert priorities(fleet.take(1)) == [1]


def test_where_many_jobs_fall_due_dequeues_share_a_read(fleet, monkeypatch):
    monkeypatch.setattr("pinlater.server.backends.sharded.due_priorities.FRESH_SECONDS", 3600)
    put(fleet, "1", *[3] * 20)
    fleet.shards["2"].next_due_ms = fleet.now_ms + 1
    for _ in range(10):
        assert priorities(fleet.take(1)) == [3]
        fleet.now_ms += 1
    assert len(fleet.asked_for("due_priorities")) == 4


@pytest.mark.usefixtures("unfresh")
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_job_that_is_stored_for_later_is_looked_for_when_it_falls_due(fleet, elsewhere):
    fleet.now_ms = 1000
    fleet.update(*specs_of("1", "2", "3", "4", dequeue_only=("1",)))  # a shard hands out what is not due, too
    put(fleet, "1", *[3] * 5)
    assert priorities(fleet.take(1)) == [3]
    if elsewhere:
        put(fleet, "2", 1)
        fleet.fleet.jobs_arrived(QUEUE, 1010, ())
    else:
        fleet.enqueue_jobs(QUEUE, [new_job(priority=1, run_after_ms=1010)])
    fleet.asked.clear()
    assert priorities(fleet.take(1)) == [3]
    assert fleet.asked_for("due_priorities") == []
    fleet.now_ms = 1010
    assert priorities(fleet.take(1)) == [1]


def test_a_job_that_comes_while_the_shards_are_read_is_not_overlooked(fleet):
    put(fleet, "1", *[3] * 5)

    async def scenario():
        fleet.shards["2"].gate = asyncio.Event()
        reading = asyncio.create_task(fleet.fleet.first_due([QUEUE]))
        await asyncio.sleep(0)
        fleet.fleet.jobs_arrived(QUEUE, None, [JobLocation("4", 1)])
        await fleet.shards["4"].enqueue_jobs(QUEUE, [new_job(priority=1)])
        fleet.shards["2"].gate.set()
        await reading
        found = await fleet.fleet.dequeue_jobs(QUEUE, 1, CLAIM, want_next_due=True)
        assert priorities(found.jobs) == [1]

    fleet.run(scenario())


def test_a_job_that_comes_while_its_shard_hands_out_others_is_not_overlooked(fleet):
    put(fleet, "1", 1)
    put(fleet, "2", *[3] * 5)

    async def scenario():
        await fleet.fleet.first_due([QUEUE])
        dequeue = fleet.shards["1"].dequeue_jobs

        async def slow(*arguments, **options):
            found = await dequeue(*arguments, **options)
            await fleet.shards["1"].enqueue_jobs(QUEUE, [new_job(priority=1)])
            fleet.fleet.jobs_arrived(QUEUE, None, [JobLocation("1", 1)])
            return found

        fleet.shards["1"].dequeue_jobs = slow
        taken = await fleet.fleet.dequeue_jobs(QUEUE, 2, CLAIM, want_next_due=True)
        assert priorities(taken.jobs) == [1, 3]
        fleet.shards["1"].dequeue_jobs = dequeue
        assert priorities((await fleet.fleet.dequeue_jobs(QUEUE, 1, CLAIM, want_next_due=True)).jobs) == [1]

    fleet.run(scenario())


def test_jobs_that_a_limit_holds_back_keep_their_place_before_others(fleet):
    put(fleet, "1", 1, 1)
    put(fleet, "2", 3, 3)
    assert priorities(fleet.dequeue_jobs(QUEUE, 4, CLAIM, want_next_due=True, max_running=1).jobs) == [1]
    for one in fleet.shards.values():
        one.running = 0
    assert priorities(fleet.dequeue_jobs(QUEUE, 1, CLAIM, want_next_due=True, max_running=2).jobs) == [1]


def test_a_shard_that_fails_between_read_and_claim_blocks_no_other_priority(fleet):
    put(fleet, "1", 1)
    put(fleet, "2", 3)
    with failing(fleet.shards["1"], ShardUnreachable("gone")):
        assert priorities(fleet.dequeue_jobs(QUEUE, 5, CLAIM).jobs) == [3]
        with pytest.raises(NoHealthyShards):
            fleet.dequeue_jobs(QUEUE, 5, CLAIM)
    assert priorities(fleet.dequeue_jobs(QUEUE, 5, CLAIM).jobs) == [1]


def test_a_shard_that_fails_is_not_asked_for_its_next_priority_by_the_same_dequeue(fleet):
    """What it claims for the first may be given back because of the lost answer, and would be handed out to another."""
    asked = []

    async def lose(queue, limit, claim, *, levels, **options):
        asked.append(levels)
        raise ShardConnectionFailed("lost")

    put(fleet, "1", 1, 2, 3)
    put(fleet, "2", 3)
    fleet.shards["1"].dequeue_jobs = lose
    [job] = fleet.dequeue_jobs(QUEUE, 1, CLAIM).jobs
    assert JobDescriptor.parse(job.descriptor).shard == "2"
    assert asked == [1]


def test_a_shard_that_refuses_to_hand_out_jobs_keeps_back_none_of_the_others(fleet):
    """Such as one whose disk is full, which still tells what is due."""
    put(fleet, "1", 1)
    put(fleet, "2", 3)
    with failing(fleet.shards["1"], UnknownError("the disk is full")):
        assert priorities(fleet.take(1)) == [3]
        with pytest.raises(UnknownError, match="the disk is full"):
            fleet.take(1)
    assert priorities(fleet.take(1)) == [1]


def test_shards_that_fail_late_are_not_all_asked_by_one_call(fleet, monkeypatch):
    monkeypatch.setattr("pinlater.server.backends.sharded.fan_out.PATIENCE_SECONDS", -1)
    asked = []

    async def fail(*arguments, **options):
        asked.append("dequeue")
        raise ShardConnectionFailed("no answer in time")

    for name, shard in fleet.shards.items():
        put(fleet, name, 1)
        shard.dequeue_jobs = fail
    with pytest.raises(NoHealthyShards):
        fleet.take(1)
    assert len(asked) == 1


@pytest.mark.parametrize("is_read", [True, False])
def test_what_a_call_had_no_time_to_ask_for_may_be_there(fleet, monkeypatch, is_read):
    monkeypatch.setattr("pinlater.server.backends.sharded.fan_out.PATIENCE_SECONDS", -1)
    put(fleet, "1", 1)
    put(fleet, "2", 2)
    if is_read:
        fleet.first_due([QUEUE])

    async def find_nothing(*arguments, **options):  # another server was faster
        return Dequeued([], None, has_more=False)

    fleet.shards["1"].dequeue_jobs = find_nothing
    found = fleet.dequeue_jobs(QUEUE, 1, CLAIM, want_next_due=True)
    assert (found.jobs, found.has_more) == ([], True)


def test_a_shard_that_hangs_is_not_waited_for_as_long_as_it_hangs(fleet, monkeypatch):
    monkeypatch.setattr("pinlater.server.backends.sharded.due_priorities.PATIENCE_SECONDS", 0.05)
    put(fleet, "1", 2)

    async def hang(queues):
        await fleet.fleet_is_over.wait()
        raise ShardConnectionFailed("gone")

    fleet.shards["2"].due_priorities = hang
    fleet.fleet_is_over = fleet.run(_event())
    assert priorities(fleet.dequeue_jobs(QUEUE, 5, CLAIM).jobs) == [2]
    fleet.fleet_is_over.set()


async def _event():
    return asyncio.Event()


def test_a_shard_that_is_asked_again_is_told_what_it_has_handed_out(fleet, monkeypatch):
    """Should its second answer get lost, what it claimed for the first one is not given back."""
    told = []
    shard = type(next(iter(fleet.shards.values())))
    dequeue = shard.dequeue_jobs

    async def noting(self, queue, limit, claim, **options):
        told.append((self.name, [job.descriptor for job in claim.held]))
        return await dequeue(self, queue, limit, claim, **options)

    monkeypatch.setattr(shard, "dequeue_jobs", noting)
    for name in fleet.shards:
        put(fleet, name, 1, 1, 2, 3)
    assert len(fleet.dequeue_jobs(QUEUE, 100, CLAIM).jobs) == 16
    for name in fleet.shards:
        first, second, third = [held for asked, held in told if asked == name]
        assert (len(first), len(second), len(third)) == (0, 2, 3)
        assert {JobDescriptor.parse(descriptor).shard for descriptor in third} == {name}
