"""The limits of one run, on a clock that the test moves."""

import os
import threading

import pytest

from pinlater.errors import JobStalled, JobTimeout
from pinlater.jobs.options import JobOptions
from pinlater.worker.running import run_limits as allowances
from pinlater.worker.running.run_limits import RunLimits

BEGAN = 1000.0


class Bench:
    """One run, and what the master and the keeper hear of it."""

    def __init__(self, **limits):
        self.acked = []
        self.kill_ns = memoryview(bytearray(16)).cast("Q")
        self.run_limits = RunLimits(JobOptions("j", "q", **limits), BEGAN, self.kill_ns, 1)
        self.run_limits.begin(self.acked.append)

    def due(self, after):
        return self.run_limits.due(BEGAN + after)

    def next_check_in(self, after):
        return self.run_limits.next_check_in(BEGAN + after)

    def record_progress(self, after):
        self.run_limits.record_progress(BEGAN + after)

    @property
    def kill_after(self):
        assert self.kill_ns[0] == 0
        assert self.kill_ns[1] / 1e9 == pytest.approx(self.run_limits.kill_at)
        return self.run_limits.kill_at - BEGAN


@pytest.mark.parametrize(
    ("limits", "kill_after", "next_check_in"),
    [
        ({"timeout": 60}, 70, 60),
        ({"timeout": 60, "kill_after": 61}, 61, 60),
        ({"kill_after": 61}, 61, None),
        ({"stall_after": 5}, 15, 5),
        ({"stall_after": 5, "timeout": 60}, 15, 5),
        ({"stall_after": 90, "timeout": 60}, 70, 60),
        ({"stall_after": 90, "kill_after": 20}, 20, 90),
    ],
)
def test_the_nearest_limit_counts(limits, kill_after, next_check_in):
    bench = Bench(**limits)
    assert bench.kill_after == kill_after
    assert bench.next_check_in(0) == next_check_in
    assert bench.run_limits.is_soft is (next_check_in is not None)


def test_a_timeout_strikes_once():
    bench = Bench(timeout=60)
    assert bench.due(59.9) is None
    assert bench.due(60) == (JobTimeout, "it ran for longer than its timeout of 60 s")
    assert [bench.due(after) for after in (60, 62, 1000)] == [None] * 3
    assert bench.next_check_in(60) is None


def test_a_standstill_is_counted_from_the_last_sign():
    bench = Bench(stall_after=5)
    for after in (4, 8, 12):
        assert bench.due(after) is None
        bench.record_progress(after)
    assert bench.next_check_in(13) == 4
    assert bench.due(16.9) is None
    assert bench.due(17) == (JobStalled, "it gave no sign of progress for 5 s, its stall_after")


def test_a_standstill_strikes_once_after_each_sign_of_life():
    bench = Bench(stall_after=5)
    assert bench.due(5)
    assert [bench.due(after) for after in (5, 10, 100)] == [None] * 3
    assert 0 < bench.next_check_in(100) <= 5, "a sign may come"
    bench.record_progress(101)
    assert bench.due(105) is None
    assert bench.due(106)


def test_other_limits_hold_when_one_was_heeded_but_give_time_for_that():
    bench = Bench(stall_after=5, timeout=5.5)
    assert bench.due(5).kind is JobStalled
    assert bench.due(5.6) is None
    assert bench.next_check_in(5.6) == pytest.approx(0.4)
    assert bench.due(6).kind is JobTimeout
    bench = Bench(stall_after=5, timeout=5)
    assert bench.due(5).kind is JobTimeout
    assert bench.due(20) is None, "it has been told to end, and nothing is news since"


def test_progress_delays_the_kill_of_the_stall_limit_only():
    bench = Bench(stall_after=5, kill_after=30)
    bench.record_progress(0.9)
    assert bench.acked == [], "not at every sign"
    for after in (1, 1.5, 4, 28):
        bench.record_progress(after)
    assert bench.acked == [BEGAN + after for after in (16, 19, 30)]
    assert bench.kill_after == 30


def test_the_kill_never_comes_before_a_standstill_has_ended():
    bench = Bench(stall_after=5)
    for after in range(100):
        bench.record_progress(after / 10)
        told = bench.acked[-1] if bench.acked else BEGAN + 15
        assert told >= BEGAN + after / 10 + 5


def test_without_a_limit_for_standstills_signs_are_nothing():
    bench = Bench(timeout=60)
    bench.record_progress(30)
    assert bench.acked == []
    assert bench.kill_after == 70


def test_waiting_for_a_server_does_not_count_as_a_stall(monkeypatch):
    monkeypatch.setattr(allowances, "monotonic", lambda: BEGAN + 4)
    bench = Bench(stall_after=5)
    with bench.run_limits.calling(30):
        assert bench.due(34) is None
        assert bench.kill_after == 4 + 30 + 5 + 10
        assert bench.next_check_in(8) <= 5, "the call may end"
        monkeypatch.setattr(allowances, "monotonic", lambda: BEGAN + 20)
    assert bench.kill_after == 35
    assert bench.acked[-1] == BEGAN + 35
    assert bench.due(24.9) is None
    assert bench.due(25).kind is JobStalled


def test_what_the_rest_of_a_job_does_takes_nothing_from_a_call_that_waits(monkeypatch):
    """Tasks and threads of a job may call at the same time."""
    monkeypatch.setattr(allowances, "monotonic", lambda: BEGAN + 4)
    bench = Bench(stall_after=5)
    with bench.run_limits.calling(30):
        with bench.run_limits.calling(10):
            pass
        assert (bench.kill_after, bench.due(38.9)) == (4 + 30 + 5 + 10, None)
        bench.record_progress(20)
        assert bench.acked[-1] == BEGAN + 49
        assert (bench.kill_after, bench.due(38.9)) == (49, None)
        monkeypatch.setattr(allowances, "monotonic", lambda: BEGAN + 21)
    assert bench.kill_after == 36
    assert bench.due(26).kind is JobStalled


def test_a_thread_that_is_left_behind_puts_nothing_off():
    bench = Bench(stall_after=5)
    bench.run_limits.end()
    thread = threading.Thread(target=bench.record_progress, args=(50,))
    thread.start()
    thread.join(20)
    assert bench.acked == []


def test_a_fork_of_the_job_does_not_extend_the_stall_limit(monkeypatch):
    bench = Bench(stall_after=5)
    monkeypatch.setattr(allowances, "getpid", lambda: os.getpid() + 1)
    forked = threading.Thread(target=bench.record_progress, args=(50,), daemon=True)
    with bench.run_limits._lock:  # as it was when the process was forked
        forked.start()
        forked.join(20)
        assert not forked.is_alive()
    assert bench.acked == []
