"""The time of shared stores: that of the shards, whatever this machine's clock says, and never ahead of it."""

import asyncio

import pytest

from pinlater.errors import ShardConnectionFailed
from pinlater.server.backends.sharded import ClockUpdater, ShardClock, StoreClock


class Machine:
    """A machine, and a shard elsewhere whose clock is ahead of the machine's."""

    def __init__(self):
        self.passed = 1000.0
        self.ahead_ms = 60_000.0

    def elapsed(self):
        return self.passed

    def wall(self):
        return self.passed

    @property
    def shown_ms(self):
        """What the shard's clock shows."""
        return self.passed * 1000 + self.ahead_ms

    def shard_clock(self):
        return ShardClock(self.elapsed, self.wall)

    def store_clock(self):
        return StoreClock(self.elapsed, self.wall)

    def read(self, clock, *, there=0.0, back=0.0):
        """Read the shard's clock over ways of so many seconds."""

        async def ask():
            self.passed += there
            shown = self.shown_ms
            self.passed += back
            return shown

        return asyncio.run(clock.read(ask))


@pytest.fixture
def machine():
    return Machine()


def test_before_a_shard_was_read_the_machine_has_to_do(machine):
    assert machine.shard_clock().now_ms() == 1_000_000


def test_a_shard_that_is_near_is_followed_exactly(machine):
    clock = machine.shard_clock()
    machine.read(clock)
    assert clock.now_ms() == 1_060_000
    machine.passed += 0.5
    assert clock.now_ms() == 1_060_500


@pytest.mark.parametrize("there", [0.0, 0.06, 0.96])
@pytest.mark.parametrize("back", [0.0, 0.06, 0.96])
def test_a_long_way_makes_it_late_by_the_way_back_and_never_early(machine, there, back):
    clock = machine.shard_clock()
    for _ in range(20):
        machine.read(clock, there=there, back=back)
        assert -back * 1000 - 2 <= clock.now_ms() - machine.shown_ms <= 0
        machine.passed += 5


def test_one_slow_answer_spoils_nothing(machine):
    clock = machine.shard_clock()
    machine.read(clock, back=0.001)
    for _ in range(20):
        machine.passed += 5
        machine.read(clock, back=1.0)
        assert -100 <= clock.now_ms() - machine.shown_ms <= 0


@pytest.mark.parametrize("drift", [-0.0002, 0.0002])
def test_a_shard_whose_clock_goes_wrong_a_little_is_never_overtaken(machine, drift):
    clock = machine.shard_clock()
    for at in range(2000):
        if at % 50 == 0:
            machine.read(clock, there=0.003, back=0.001)
        machine.passed += 0.1
        machine.ahead_ms += 100 * drift
        assert -10 <= clock.now_ms() - machine.shown_ms <= 0


@pytest.mark.parametrize("step", [-30_000.0, 30_000.0])
def test_a_step_of_the_shards_clock_is_approached_slowly(machine, step):
    clock = machine.shard_clock()
    machine.read(clock, back=0.001)
    machine.ahead_ms += step
    machine.read(clock, back=0.001)
    before = clock.now_ms()
    machine.passed += 1
    assert 900 <= clock.now_ms() - before <= 1100
    for _ in range(320):
        machine.passed += 1
        clock.now_ms()
        machine.read(clock, back=0.001)
    assert clock.now_ms() == pytest.approx(machine.shown_ms, abs=10)


def test_a_store_whose_shards_say_nothing_goes_by_the_machine(machine):
    clock = machine.store_clock()
    clock.learn([])
    assert clock.now_ms() == 1_000_000


def test_the_first_answer_counts_at_once(machine):
    clock = machine.store_clock()
    clock.learn([60_000.0])
    assert clock.now_ms() == 1_060_000


def test_later_ones_are_approached_without_a_step(machine):
    clock = machine.store_clock()
    clock.learn([60_000.0])
    clock.learn([0.0])
    assert clock.now_ms() == 1_060_000


@pytest.mark.parametrize("far_off", [-(10**9), -5.0, 10**9])
def test_one_shard_that_is_far_off_changes_nothing(machine, far_off):
    clock = machine.store_clock()
    clock.learn([6.0, far_off, 8.0])
    assert clock.now_ms() == 1_000_006


@pytest.mark.parametrize("behind", [1.0, 9.0])
def test_a_job_has_fallen_due_on_its_shard_when_a_timer_fires(machine, behind):
    clock = machine.store_clock()
    clock.learn([60.0, 60.0 - behind, 61.0])
    assert clock.now_ms() == 1_000_060 - behind


def test_a_machine_whose_clock_is_set_changes_nothing(machine):
    clock = StoreClock(machine.elapsed, lambda: machine.passed + 86_400 * (machine.passed > 1000))
    clock.learn([60_000.0])
    machine.passed += 10
    assert clock.now_ms() == 1_070_000


def test_a_sharded_store_reports_its_shards_clock(fleet, machine):
    for shard in fleet.shards.values():
        shard.ahead_ms = 50_000.0
    clock = machine.store_clock()
    updater = ClockUpdater(fleet.fleet.group, clock)
    fleet.run(updater.update())
    assert clock.now_ms() == 1_050_000


def test_a_shard_whose_clock_differs_from_the_others_is_named_once(fleet, machine, caplog):
    *others, shard = fleet.shards.values()
    updater = ClockUpdater(fleet.fleet.group, machine.store_clock())
    for ahead_ms in (300_000.0, 300_000.0, 0.0, -300_000.0):
        shard.ahead_ms = ahead_ms
        fleet.run(updater.update())
    assert len(others) > 1
    assert [message.partition(": ")[0] for message in caplog.messages] == [
        f"the clock of shard {shard.name} is 300 s {which} those of other shards" for which in ("ahead of", "behind")
    ]


def test_a_sharded_store_without_answers_keeps_the_clock(fleet, machine, caplog):
    clock = machine.store_clock()
    updater = ClockUpdater(fleet.fleet.group, clock)
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("gone")
    fleet.run(updater.update())
    assert clock.now_ms() == 1_000_000
    fleet.run(updater.update())
    assert caplog.text.count("no shard tells its time") == 1
    for error in (None, ShardConnectionFailed("gone")):
        for shard in fleet.shards.values():
            shard.error = error
        fleet.run(updater.update())
    assert caplog.text.count("no shard tells its time") == 2


def test_servers_that_read_a_clock_at_the_same_time_leave_one_record(machine):
    one, two = machine.shard_clock(), machine.shard_clock()

    def meet(clock, last):
        machine.read(clock)
        return clock.meet(machine.shown_ms, last)

    assert meet(one, None) is meet(two, None) is None  # each sees first what is there
    record = meet(one, None)
    assert record.seen_ms == machine.shown_ms
    assert meet(two, record) is None
    machine.passed += 0.2
    assert meet(two, record) is None
    machine.passed += 2.1
    assert meet(two, record).seen_ms == machine.shown_ms
    other = record._replace(seen_ms=machine.shown_ms, ahead_ms=record.ahead_ms + 1000)
    assert meet(two, other).ahead_ms == pytest.approx(0)  # of a server that goes by another time
