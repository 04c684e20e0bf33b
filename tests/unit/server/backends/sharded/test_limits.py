"""Several shards as one store: queue settings, and limits of running jobs."""

import asyncio

import pytest

from pinlater.errors import QueueNotFound, ShardConnectionFailed
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange, QueueSettings
from pinlater.server.backends.records import Claim
from pinlater.server.backends.sharded import queue_locks
from pinlater.server.limits.stored_limits import StoredLimits
from tests.support.bench import QUEUE, new_job
from tests.support.waiting import until
from tests.unit.server.backends.sharded.fake_shards import specs_of

CLAIM = Claim("host:1:1:worker:1", 1000)


def test_settings_are_kept_on_every_shard(fleet):
    fleet.change_queue_settings(QUEUE, QueueChange(is_paused=True, max_running=5))
    fleet.change_queue_settings(QUEUE, QueueChange(jobs_per_second=2.5))
    wanted = QueueSettings(is_paused=True, jobs_per_second=2.5, max_running=5)
    assert {name: one.settings[QUEUE] for name, one in fleet.shards.items()} == dict.fromkeys("123", wanted)
    fleet.update(*specs_of("1", "2", "3", "4"))
    fleet.run(fleet.shards["4"].create_queue(QUEUE))
    for _ in range(10):  # in whatever order they answer
        assert fleet.queue_settings() == {QUEUE: wanted}


def test_a_change_does_not_hide_what_a_shard_that_was_added_lacks(fleet):
    fleet.change_queue_settings(QUEUE, QueueChange(jobs_per_second=2.5, max_running=5, shards=FOLLOWS_LOAD))
    fleet.update(*specs_of("1", "2", "3", "4"))
    fleet.run(fleet.shards["4"].create_queue(QUEUE))
    fleet.change_queue_settings(QUEUE, QueueChange(is_paused=True, shards_by_load=2))
    wanted = QueueSettings(True, 2.5, 5, FOLLOWS_LOAD, 2)
    assert fleet.shards["4"].settings[QUEUE] != wanted
    for _ in range(10):  # in whatever order they answer
        assert fleet.queue_settings() == {QUEUE: wanted}
    fleet.change_queue_settings(QUEUE, QueueChange(False, 0, 0, 0, 0))
    assert fleet.queue_settings() == {QUEUE: QueueSettings()}


@pytest.mark.parametrize(
    "reach", [lambda fleet: fleet.enqueue_jobs(QUEUE, [new_job()]), lambda fleet: fleet.create_queue(QUEUE)]
)
def test_a_shard_that_was_added_gets_the_settings_with_the_queue_and_keeps_them_alone(fleet, reach):
    wanted = QueueSettings(True, 2.5, 5, FOLLOWS_LOAD, 2)
    fleet.change_queue_settings(QUEUE, QueueChange(True, 2.5, 5, FOLLOWS_LOAD, 2))
    fleet.asked.clear()
    fleet.update(*specs_of("1", "2", "3", "4", dequeue_only="123"))
    reach(fleet)
    assert fleet.asked_for("change") == ["4"], "the others have them"
    fleet.update(*specs_of("4"))
    assert fleet.queue_settings() == {QUEUE: wanted}


@pytest.mark.parametrize("queue", [QUEUE, "thumbnails"])
def test_a_queue_without_settings_gets_none(fleet, queue):
    fleet.update(*specs_of("1", "2", "3", "4"))
    fleet.create_queue(queue)
    assert fleet.queue_settings()[queue] == QueueSettings()
    assert fleet.asked_for("change") == []


def test_where_shards_differ_the_stricter_limits_and_the_larger_number_of_shards_count(fleet):
    fleet.shards["1"].settings[QUEUE] = QueueSettings(True, 2.0, 7, 3, 4)
    fleet.shards["2"].settings[QUEUE] = QueueSettings(False, 3.0, 5, 2, 5)
    fleet.shards["3"].settings[QUEUE] = QueueSettings(False, 4.0, 6, FOLLOWS_LOAD, None)
    for _ in range(10):  # in whatever order they answer
        assert fleet.queue_settings() == {QUEUE: QueueSettings(True, 2.0, 5, 3, 5)}


def test_polls_ask_one_shard_each_and_find_what_another_server_has_changed(fleet):
    asked = []
    for one in fleet.shards.values():
        one.queue_settings = counting(one, asked)
    assert fleet.changed_queue_settings() == {QUEUE: QueueSettings()}
    assert sorted(asked) == ["1", "2", "3"]
    assert [fleet.changed_queue_settings() for _ in range(6)] == [None] * 6
    assert sorted(asked[3:]) == ["1", "1", "2", "2", "3", "3"]
    paused = QueueSettings(is_paused=True)
    for one in fleet.shards.values():
        one.settings[QUEUE] = paused
    assert fleet.changed_queue_settings() == {QUEUE: paused}
    assert fleet.changed_queue_settings() is None


def test_a_change_that_another_server_undoes_before_the_next_poll_is_undone_here_too(fleet):
    files = Files()
    limits = StoredLimits(fleet.fleet, files, lambda _: None)
    fleet.run(poll(limits))
    fleet.run(limits.change(QUEUE, QueueChange(is_paused=True)))
    fleet.change_queue_settings(QUEUE, QueueChange(is_paused=False))  # by another server
    fleet.run(poll(limits))
    assert [said[QUEUE].is_paused for said in files.said] == [False, True, False]
    fleet.asked.clear()
    fleet.run(poll(limits))
    assert len(fleet.asked) == 1, "as long as nothing changes"


def poll(limits):
    return limits._apply(limits._backend.changed_queue_settings)


class Files:
    def __init__(self):
        self.said = []

    def apply_stored(self, stored):
        self.said.append(stored)


def test_polls_find_a_change_that_reached_one_shard_only(fleet):
    fleet.changed_queue_settings()
    fleet.shards["2"].settings[QUEUE] = QueueSettings(max_running=5)
    found = [fleet.changed_queue_settings() for _ in range(3)]
    assert [one for one in found if one is not None] == [{QUEUE: QueueSettings(max_running=5)}]


def test_polls_read_anew_when_a_shard_comes_or_fails(fleet):
    fleet.change_queue_settings(QUEUE, QueueChange(is_paused=True))
    assert fleet.changed_queue_settings()[QUEUE].is_paused
    fleet.update(*specs_of("1", "2", "3", "4"))
    fleet.run(fleet.shards["4"].create_queue(QUEUE))
    assert fleet.changed_queue_settings()[QUEUE].is_paused  # whatever the new one says
    fleet.shards["1"].error = ShardConnectionFailed("gone")
    assert [found for _ in range(4) if (found := fleet.changed_queue_settings())] == [
        {QUEUE: QueueSettings(is_paused=True)}
    ]


def counting(shard, asked):
    queue_settings = shard.queue_settings

    async def counted():
        asked.append(shard.name)
        return await queue_settings()

    return counted


def test_a_shard_that_missed_a_change_is_named(fleet):
    fleet.shards["2"].error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed, match="shard 2 does not answer and keeps the old settings"):
        fleet.change_queue_settings(QUEUE, QueueChange(is_paused=True))


def test_a_shard_that_missed_a_change_is_named_also_if_another_one_lacks_the_queue(fleet):
    fleet.run(fleet.shards["1"].delete_queue(QUEUE))
    fleet.shards["3"].error = ShardConnectionFailed("gone")
    with pytest.raises(ShardConnectionFailed, match="shard 3 does not answer and keeps the old settings"):
        fleet.change_queue_settings(QUEUE, QueueChange(is_paused=True))
    assert fleet.shards["2"].settings[QUEUE].is_paused
    fleet.run(fleet.shards["2"].delete_queue(QUEUE))
    with pytest.raises(ShardConnectionFailed, match="shard 3"):  # it may have the queue
        fleet.change_queue_settings(QUEUE, QueueChange(is_paused=True))


def test_settings_of_a_queue_that_is_not_there(fleet):
    with pytest.raises(QueueNotFound):
        fleet.change_queue_settings("nowhere", QueueChange(is_paused=True))
    fleet.run(fleet.shards["1"].create_queue("young"))
    fleet.change_queue_settings("young", QueueChange(is_paused=True))
    assert fleet.queue_settings()["young"].is_paused


def test_a_limit_of_running_jobs_holds_over_all_shards(fleet):
    for one in fleet.shards.values():
        fleet.run(one.enqueue_jobs(QUEUE, [new_job() for _ in range(4)]))

    def take(limit):
        found = fleet.dequeue_jobs(QUEUE, limit, CLAIM, max_running=7)
        return len(found.jobs), found.has_more, found.is_held

    assert take(5) == (5, True, False)
    assert take(5) == (2, False, True)
    assert take(5) == (0, False, True)
    max(fleet.shards.values(), key=lambda one: one.running).running = 0  # its jobs have ended
    taken, _, is_held = take(10)
    assert taken > 0
    assert is_held == (taken < 5)
    assert sum(one.running for one in fleet.shards.values()) == 7


def test_two_dequeues_at_once_run_no_more_than_may(fleet):
    for one in fleet.shards.values():
        fleet.run(one.enqueue_jobs(QUEUE, [new_job() for _ in range(4)]))

    async def take():
        return await asyncio.gather(*(fleet.fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=2) for _ in range(10)))

    assert sum(len(found.jobs) for found in fleet.run(take())) == 2
    assert not any(one.locks for one in fleet.shards.values()), "they are given back"


def test_while_another_server_has_locked_the_queue_jobs_are_held_back(fleet, monkeypatch):
    monkeypatch.setattr(queue_locks, "_PATIENCE_SECONDS", 0.0)
    for one in fleet.shards.values():
        fleet.run(one.enqueue_jobs(QUEUE, [new_job()]))
        one.locks[QUEUE] = 0
    found = fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=2)
    assert (found.jobs, found.is_held) == ([], True)
    for one in fleet.shards.values():
        one.locks.clear()
    assert len(fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=2).jobs) == 1


def test_what_runs_on_a_shard_that_does_not_answer_counts_too(fleet, caplog):
    caplog.set_level("INFO")
    for one in fleet.shards.values():
        fleet.run(one.enqueue_jobs(QUEUE, [new_job()]))
    assert len(fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1).jobs) == 1
    [busy] = [one for one in fleet.shards.values() if one.running]
    busy.error = ShardConnectionFailed("gone")
    for _ in range(5):  # also when it is left alone
        found = fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1)
        assert (found.jobs, found.is_held) == ([], True)
    assert caplog.text.count("until all shards tell how many run") == 1
    busy.error = None
    fleet.wait_until(lambda: fleet.unhealthy_shards == 0)
    assert fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1).is_held
    assert f"queue {QUEUE} hands out jobs again" in caplog.text
    busy.error = ShardConnectionFailed("gone")
    assert fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1).is_held
    assert caplog.text.count("until all shards tell how many run") == 2
    assert len(fleet.dequeue_jobs(QUEUE, 9, CLAIM).jobs) == 2, "without a limit nobody has to know"


def test_a_limited_queue_may_be_missing_on_the_shard_of_its_lock(fleet):
    home = fleet.fleet._claimer._locks.home(QUEUE)
    fleet.run(home.shard.delete_queue(QUEUE))
    [other, _] = [one for one in fleet.shards.values() if one is not home.shard]
    fleet.run(other.enqueue_jobs(QUEUE, [new_job()]))
    assert len(fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1).jobs) == 1
    with pytest.raises(QueueNotFound):
        fleet.dequeue_jobs("nowhere", 1, CLAIM, max_running=1)


def test_while_a_dead_server_has_the_lock_dequeues_wait_for_it_together(fleet, monkeypatch):
    monkeypatch.setattr(queue_locks, "_PATIENCE_SECONDS", 0.1)
    dequeues = 50
    for one in fleet.shards.values():
        one.locks[QUEUE] = 0

    async def take():
        return await asyncio.gather(
            *(fleet.fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=2) for _ in range(dequeues))
        )

    assert all(found.is_held for found in fleet.run(take()))
    assert sum(verb == "lock queue" for _, verb in fleet.asked) < 2 * dequeues, "each has been patient by itself"


def test_a_queue_is_unlocked_where_nothing_could_be_claimed(fleet):
    home = fleet.fleet._claimer._locks.home(QUEUE)
    other = next(one for one in fleet.shards.values() if one is not home.shard)
    other.error = ShardConnectionFailed("gone")
    assert fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1).is_held
    assert (home.name, "lock queue") in fleet.asked
    assert not home.shard.locks


def test_a_queue_is_unlocked_when_the_shard_of_its_lock_is_back(fleet, monkeypatch):
    home = fleet.fleet._claimer._locks.home(QUEUE).shard
    fleet.run(home.enqueue_jobs(QUEUE, [new_job()]))
    unlock_queue, failures = home.unlock_queue, [ShardConnectionFailed("gone")]

    async def flaky(queue, token):
        if failures:
            raise failures.pop()
        await unlock_queue(queue, token)

    async def is_unlocked():
        await until(lambda: not home.locks)

    monkeypatch.setattr(home, "unlock_queue", flaky)
    assert len(fleet.dequeue_jobs(QUEUE, 1, CLAIM, max_running=1).jobs) == 1
    fleet.run(asyncio.wait_for(is_unlocked(), 10))


# Rates


def test_the_tokens_of_a_queue_are_on_two_shards(fleet):
    for one in fleet.shards.values():
        one.tokens = 10
    assert sum(fleet.acquire_tokens(QUEUE, 5.0, 2).taken for _ in range(20)) == 10
    assert sorted(one.tokens for one in fleet.shards.values()) == [0, 0, 10]
    assert fleet.acquire_tokens(QUEUE, 5.0, -3).taken == -3
    assert sorted(one.tokens for one in fleet.shards.values()) == [3, 3, 10]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_server_that_does_not_reach_a_shard_shares_the_rate_with_those_that_do(fleet, place):
    for one in fleet.shards.values():
        one.tokens = 10
    out_of_reach = list(fleet.shards.values())[place]
    out_of_reach.error = ShardConnectionFailed("gone")
    assert fleet.acquire_tokens(QUEUE, 5.0, 6).taken == 6
    out_of_reach.error = None
    assert fleet.acquire_tokens(QUEUE, 5.0, 10).taken == 4
    assert fleet.acquire_tokens(QUEUE, 5.0, 10).taken == 0
    out_of_reach.error = ShardConnectionFailed("gone")
    assert fleet.acquire_tokens(QUEUE, 5.0, 10).taken == 0, "it goes by a bucket that the others use as well"


def test_a_bucket_that_was_away_gives_no_more_than_the_other_one_has(fleet):
    for one in fleet.shards.values():
        one.tokens = 10
    fleet.acquire_tokens(QUEUE, 5.0, 1)
    homes = [one for one in fleet.shards.values() if one.tokens == 9]
    for away, left in (homes, homes[::-1]):
        away.tokens, left.tokens = 10, 3
        assert fleet.acquire_tokens(QUEUE, 5.0, 10).taken == 3
        assert fleet.acquire_tokens(QUEUE, 5.0, 10).taken == 0


def test_servers_that_ask_at_once_get_the_whole_rate_together(fleet):
    """One that found little in the first bucket may be the first at the second one."""
    for one in fleet.shards.values():
        one.tokens = 100
    turn, real = [0], {}

    def delayed(shard):
        async def acquire(queue, rate, wanted):
            found = await real[shard.name](queue, rate, wanted)
            turn[0] += 1
            for _ in range(10 - min(turn[0], 9)):  # who was asked first is answered last
                await asyncio.sleep(0)
            return found

        return acquire

    for one in fleet.shards.values():
        real[one.name] = one.acquire_tokens
        one.acquire_tokens = delayed(one)

    async def take():
        return await asyncio.gather(*(fleet.fleet.acquire_tokens(QUEUE, 100.0, 30) for _ in range(4)))

    assert sum(tokens.taken for tokens in fleet.run(take())) == 100


def test_queues_spread_their_tokens_over_the_shards(fleet):
    for one in fleet.shards.values():
        one.tokens = 30
    for queue in [f"queue{number}" for number in range(30)]:
        fleet.create_queue(queue)
        fleet.acquire_tokens(queue, 5.0, 1)
    assert all(0 < one.tokens < 30 for one in fleet.shards.values())


def test_without_the_shards_that_have_the_tokens_another_one_has_them(fleet):
    for one in fleet.shards.values():
        one.tokens = 10
    fleet.acquire_tokens(QUEUE, 5.0, 10)
    homes = [one for one in fleet.shards.values() if not one.tokens]
    for error in (ShardConnectionFailed("gone"), QueueNotFound("new")):
        for home in homes:
            home.error = error
        assert fleet.acquire_tokens(QUEUE, 5.0, 1).taken == 1
        homes[0].error = None
        assert fleet.acquire_tokens(QUEUE, 5.0, 1).taken == 0


def test_tokens_of_a_queue_that_is_not_there(fleet):
    with pytest.raises(QueueNotFound):
        fleet.acquire_tokens("nowhere", 5.0, 1)
