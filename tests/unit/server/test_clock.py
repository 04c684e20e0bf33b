"""The steady clock under steps of the system clock."""

import time

import pytest

from pinlater.server.clock import SteadyClock


class Sources:
    """A machine whose system clock can be stepped."""

    def __init__(self):
        self.passed = 100.0
        self.wall = 1_700_000_000.0
        self.looks = 0

    def read_wall(self):
        self.looks += 1
        return self.wall

    def advance(self, seconds):
        self.passed += seconds
        self.wall += seconds

    def clock(self):
        return SteadyClock(self.read_wall, lambda: self.passed)


@pytest.fixture
def sources():
    return Sources()


def test_it_starts_at_the_system_time_and_keeps_pace(sources):
    clock = sources.clock()
    assert clock.now_ms() == 1_700_000_000_000
    for _ in range(50):
        sources.advance(0.37)
        assert clock.now_ms() == pytest.approx(sources.wall * 1000, abs=1.5)


@pytest.mark.parametrize("step", [30.0, -30.0, 86400.0, -86400.0])
def test_a_step_is_not_followed_at_once(sources, step):
    clock = sources.clock()
    sources.wall += step
    before = clock.now_ms()
    for _ in range(20):
        sources.advance(0.5)
        now = clock.now_ms()
        assert 449 <= now - before <= 551
        before = now


@pytest.mark.parametrize(("step", "told"), [(7200.0, "forward by 7200 s"), (-7200.0, "back by 7200 s")])
def test_a_step_is_logged_once_with_how_long_it_has_effects(sources, caplog, step, told):
    clock = SteadyClock(sources.read_wall, lambda: sources.passed, name="this machine")
    sources.wall += 4
    for _ in range(100):
        sources.advance(1)
        clock.now_ms()
    assert caplog.text == ""
    sources.wall += step
    for _ in range(100):
        sources.advance(1)
        clock.now_ms()
    assert caplog.text.count("this machine was set") == 1
    assert told in caplog.text
    assert "for 20.0 hours" in caplog.text


@pytest.mark.parametrize("step", [30.0, -30.0])
@pytest.mark.parametrize("pause", [0.01, 0.9, 1.0, 7.3])
def test_a_step_is_made_up_for_at_a_tenth_of_the_time(sources, step, pause):
    clock = sources.clock()
    sources.wall += step
    for _ in range(int(310 / pause) + 1):
        sources.advance(pause)
        clock.now_ms()
    assert clock.now_ms() == pytest.approx(sources.wall * 1000, abs=2)


def test_it_does_not_overshoot_when_nobody_asks_for_long(sources):
    clock = sources.clock()
    sources.wall += 0.05
    sources.advance(1)
    clock.now_ms()
    sources.advance(3600)
    assert clock.now_ms() == pytest.approx(sources.wall * 1000, abs=1.5)


@pytest.mark.parametrize("step", [-5.0, 5.0, -0.03, 0.03])
def test_it_never_goes_back(sources, step):
    clock = sources.clock()
    sources.wall += step
    times = []
    for _ in range(3000):
        sources.advance(0.003)
        times.append(clock.now_ms())
    assert times == sorted(times)


def test_the_system_clock_is_looked_at_once_a_second(sources):
    clock = sources.clock()
    for _ in range(1000):
        sources.advance(0.01)
        clock.now_ms()
    assert sources.looks <= 12


@pytest.mark.parametrize("pause", [0.0001, 0.4, 3.0])
def test_a_pause_between_two_readings_does_not_make_it_early(sources, pause):
    def paused():
        wall = sources.read_wall()
        sources.advance(pause)
        return wall

    clock = SteadyClock(paused, lambda: sources.passed)
    for _ in range(50):
        sources.advance(0.37)
        assert clock.now_ms() <= sources.wall * 1000


def test_by_default_it_shows_the_present_time():
    assert SteadyClock().now_ms() == pytest.approx(time.time() * 1000, abs=60_000)
