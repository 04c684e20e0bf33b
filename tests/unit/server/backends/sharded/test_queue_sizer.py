"""Queues that follow their load: more shards once one is behind, fewer after quiet minutes, on a simulated clock."""

import itertools
import random

import pytest

from pinlater.errors import UnknownError
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange, QueueSettings
from pinlater.model.statistics import MINUTE, StatisticsKind
from pinlater.server.backends.sharded.queue_sizer import (
    BEHIND_SECONDS,
    JOBS_PER_SECOND,
    LOOK_SECONDS,
    QUIET_MINUTES,
    Load,
    QueueSizer,
    shards_needed,
)
from pinlater.server.backends.sharded.shard import DuePriorities
from pinlater.server.backends.statistics import ENQUEUED, StatisticsEntry, StatisticsKey
from tests.support.bench import QUEUE
from tests.unit.server.backends.sharded.fake_shards import FleetBench, specs_of

MOST = 12
BEHIND = BEHIND_SECONDS + 1
QUIET_SECONDS = QUIET_MINUTES * MINUTE


@pytest.mark.parametrize(
    ("rate", "behind", "present", "is_quiet", "wanted"),
    [
        (0, 0, None, False, 1),
        (0, BEHIND, None, False, 12),
        (350, 0, None, False, 4),
        (0, BEHIND, 1, False, 2),
        (0, BEHIND, 8, True, 12),
        (0, BEHIND, 12, True, 12),
        (0, BEHIND_SECONDS, 1, True, 1),
        (1000, BEHIND, 1, False, 10),
        (101, 0, 1, False, 2),
        (100, 0, 1, False, 1),
        (99_999, 0, 1, False, 12),
        (0, 0, 12, False, 12),
        (0, 0, 12, True, 6),
        (0, 0, 6, True, 3),
        (0, 0, 3, True, 1),
        (0, 0, 1, True, 1),
        (390, 0, 12, True, 6),
        (390, 0, 6, True, 5),
        (390, 0, 5, True, 5),
        (0, 0, 20, False, 12),
    ],
)
def test_a_decision(rate, behind, present, is_quiet, wanted):
    assert shards_needed(Load(rate, behind), present, MOST, is_quiet=is_quiet) == wanted


class World(FleetBench):
    """Servers of one store on a simulated clock, and what the store knows of a queue's load.

    Attributes:
        changes: when the number of shards was changed, and to which, as it was seen.
        is_limited: whether the queue is paused or has a limit.
    """

    def __init__(self, servers=1):
        super().__init__(*specs_of(*map(str, range(1, MOST + 1))))
        self.create_queue(QUEUE)
        self.seconds = 0.0
        self.is_limited = False
        self.minutes = {}
        self.now_ms = MINUTE * 1000 * 1000
        self.sizers = [QueueSizer(self.fleet.group, lambda: self.now_ms, lambda: self.seconds) for _ in range(servers)]
        self.change(shards=FOLLOWS_LOAD)
        self.changes = []

    def change(self, **change):
        self.change_queue_settings(QUEUE, QueueChange(**change))
        self.apply()

    def apply(self):
        """Let each server read the settings, as it does within a second."""
        settings = self.queue_settings()
        for sizer in self.sizers:
            sizer.apply_settings(settings)

    @property
    def count(self):
        shards = [handle.shard for handle in self.fleet.group.registry]
        counts = {shard.settings[QUEUE].shard_count for shard in shards if QUEUE in shard.settings}
        return max((count for count in counts if count is not None), default=None)

    def adjust(self, sizer):
        self.run(sizer.adjust(lambda _queue: self.is_limited))

    def behind(self, seconds):
        """Let the oldest due job be due for so long; None: nothing is due."""
        first_ms = None if seconds is None else self.now_ms - round(seconds * 1000)
        due = DuePriorities([], None, first_ms)
        for shard in self.shards.values():
            shard._due = lambda _kept: due

    def enqueued(self, jobs):
        """Add to what was enqueued in the present minute; one shard keeps it, as with real ones."""
        start_ms = self.now_ms // (MINUTE * 1000) * MINUTE * 1000
        self.minutes = {at: count for at, count in self.minutes.items() if at >= start_ms - QUIET_SECONDS * 1000}
        self.minutes[start_ms] = self.minutes.get(start_ms, 0) + jobs
        self.shards["1"].statistics = [
            StatisticsEntry(StatisticsKey(MINUTE, at, StatisticsKind.QUEUE, QUEUE, ""), {ENQUEUED: count})
            for at, count in self.minutes.items()
        ]

    def tick(self, rate=0.0, behind=None):
        """Let a second pass: servers have their turns one after the other."""
        self.seconds += 1
        self.now_ms += 1000
        self.enqueued(rate)
        self.behind(behind)
        before = self.count
        self.adjust(self.sizers[int(self.seconds) % len(self.sizers)])
        if self.count != before:
            self.changes.append((self.seconds, self.count))
            self.apply()

    def run_for(self, seconds, rate=0.0, behind=None):
        for _ in range(int(seconds)):
            self.tick(rate, behind)


@pytest.fixture(params=[1, 3])
def world(request):
    world = World(request.param)
    yield world
    world.end()


def test_nothing_is_asked_while_no_queue_follows_its_load(world):
    world.change(shards=3)
    world.asked.clear()
    world.adjust(world.sizers[0])
    assert world.asked == []


def test_a_look_is_two_queries_a_shard_and_not_at_each_turn():
    world = World()
    world.run_for(1)
    world.asked.clear()
    world.run_for(LOOK_SECONDS - 1)
    assert world.asked == []
    world.tick()
    assert len(world.asked_for("due_priorities")) == len(world.asked_for("read statistics")) == MOST
    assert len(world.asked) == 2 * MOST
    world.end()


def test_an_idle_queue_uses_one_shard_from_the_first_look_on(world):
    assert world.count is None
    world.run_for(1)
    assert world.count == 1
    world.run_for(QUIET_SECONDS * 2)
    assert (world.count, len(world.changes)) == (1, 1)


def test_a_queue_that_is_behind_uses_all_shards_within_four_looks(world):
    world.run_for(LOOK_SECONDS)
    world.run_for(4 * LOOK_SECONDS, behind=BEHIND)
    assert world.count == MOST


def test_new_jobs_in_numbers_are_spread_within_a_minute_and_a_half(world):
    world.run_for(100)
    world.run_for(90, rate=8.5 * JOBS_PER_SECOND)
    assert world.count in {9, 10}


def test_the_number_falls_by_half_after_quiet_minutes(world):
    world.run_for(LOOK_SECONDS * 6, behind=BEHIND)
    assert world.count == MOST
    world.changes.clear()
    world.run_for(QUIET_SECONDS - LOOK_SECONDS - 1)
    assert world.changes == []
    world.run_for(4 * (QUIET_SECONDS + 2 * LOOK_SECONDS))
    assert [count for _, count in world.changes] == [6, 3, 1]
    times = [at for at, _ in world.changes]
    assert all(later - earlier >= QUIET_SECONDS for earlier, later in itertools.pairwise(times))


def test_a_change_of_another_setting_does_not_begin_the_quiet_minutes_anew(world):
    world.run_for(LOOK_SECONDS * 6, behind=BEHIND)
    for _ in range(4):
        world.run_for(QUIET_SECONDS / 4)
        world.change(max_running=5)
    world.run_for(2 * LOOK_SECONDS)
    assert world.count == MOST // 2


def test_being_behind_now_and_then_keeps_the_number(world):
    world.run_for(LOOK_SECONDS * 6, behind=BEHIND)
    world.changes.clear()
    for _ in range(8):
        world.run_for(QUIET_SECONDS * 0.8)
        world.run_for(LOOK_SECONDS * len(world.sizers), behind=BEHIND)
    assert (world.count, world.changes) == (MOST, [])


def test_a_load_that_varies_about_a_bound_changes_the_number_rarely(world):
    chance = random.Random(7)
    for _ in range(40 * MINUTE):
        world.tick(rate=chance.uniform(0.5, 1.5) * 3 * JOBS_PER_SECOND)
    assert world.count in {3, 4}
    assert len(world.changes) <= 4
    assert [count for _, count in world.changes] == sorted(count for _, count in world.changes), "it never fell"


def test_jobs_that_wait_for_a_limit_make_no_queue_behind(world):
    world.is_limited = True
    world.run_for(LOOK_SECONDS * 6, behind=3600)
    assert world.count == 1


def test_servers_that_decide_at_once_agree():
    world = World(5)
    world.run_for(6)
    for at in range(3):
        world.seconds += LOOK_SECONDS
        world.behind(BEHIND)
        for sizer in world.sizers:
            world.adjust(sizer)
        world.apply()
        assert world.count == (2, 4, 8)[at]
    world.end()


def test_a_decision_that_comes_too_late_does_not_change_a_fixed_number(world):
    world.run_for(LOOK_SECONDS)
    world.change_queue_settings(QUEUE, QueueChange(shards=5))  # the servers have not read it yet
    world.behind(BEHIND)
    world.seconds += LOOK_SECONDS
    for sizer in world.sizers:
        world.adjust(sizer)
    assert world.count == 5
    world.apply()
    world.run_for(LOOK_SECONDS * 3, behind=BEHIND)
    assert world.count == 5
    world.change(shards=FOLLOWS_LOAD, shards_by_load=0)
    world.run_for(LOOK_SECONDS)
    assert world.count == 1, "it is found anew"


def test_no_more_shards_are_used_than_there_are(world):
    world.run_for(LOOK_SECONDS * 6, behind=BEHIND)
    world.update(*specs_of("1", "2", "3", "4", dequeue_only=("4",)))
    world.run_for(LOOK_SECONDS)
    assert world.count == 3


def test_shards_that_do_not_answer_keep_nobody_from_deciding(world):
    world.run_for(LOOK_SECONDS)
    world.fleet.group.registry.named("3")._health.is_healthy = False
    world.shards["3"].settings[QUEUE] = QueueSettings(shards=FOLLOWS_LOAD, shards_by_load=1)
    world.run_for(LOOK_SECONDS * 6, behind=BEHIND)
    assert world.count == MOST
    world.fleet.group.registry.named("3")._health.is_healthy = True
    assert world.queue_settings()[QUEUE].shard_count == MOST, "though one shard has the number of before"


def test_a_shard_that_refuses_holds_up_no_other_queue_and_is_asked_again(world):
    world.run_for(LOOK_SECONDS)
    world.create_queue("zebras")
    world.change_queue_settings("zebras", QueueChange(shards=FOLLOWS_LOAD))
    world.apply()
    shard = world.shards["3"]
    change, refused = shard.change_queue_settings, []

    async def refuse(queue, wanted):
        if queue == QUEUE:
            refused.append(wanted.shards_by_load)
            raise UnknownError("read-only")
        await change(queue, wanted)

    shard.change_queue_settings = refuse
    world.run_for(LOOK_SECONDS, behind=BEHIND)
    assert world.queue_settings()["zebras"].shard_count == MOST
    world.run_for(2 * LOOK_SECONDS, behind=BEHIND)
    assert refused[:3] == [2, 4, 8]
    assert world.queue_settings()[QUEUE].shard_count == refused[-1]


def test_a_queue_that_was_deleted_is_left_alone(world):
    world.run_for(LOOK_SECONDS)
    world.delete_queue(QUEUE)
    world.seconds += LOOK_SECONDS
    world.adjust(world.sizers[0])
    world.apply()
    world.asked.clear()
    world.seconds += LOOK_SECONDS
    world.adjust(world.sizers[0])
    assert world.asked == []
