"""Limits strike while a thread acquires a lock."""

import signal
import sys
import threading
import time
from functools import partial

import pytest

from pinlater.errors import StepTimeout
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.worker.running.step_limits import StepLimits, _watched_alarms, limit_by_alarm
from pinlater.worker.running.with_entries import Postponement, is_entering, may_enter

SOON = 0.05


class Signals:
    """Sends a signal in its ``__enter__``, which is no Python code, like that of a lock."""

    __enter__ = staticmethod(partial(signal.raise_signal, signal.SIGUSR2))

    def __exit__(self, *_):
        """Do nothing."""


@pytest.fixture
def frames_of_signals():
    """Note of each signal whether what its handler raises would come before the block."""
    found = []
    usual = signal.signal(signal.SIGUSR2, lambda _number, frame: found.append(is_entering(frame)))
    yield found
    signal.signal(signal.SIGUSR2, usual)


def test_it_is_known_whether_an_exception_would_come_before_the_block(frames_of_signals):
    with Signals():
        signal.raise_signal(signal.SIGUSR2)
    assert frames_of_signals == [sys.version_info >= (3, 14), False]


def test_a_thread_without_frames_enters_nothing():
    assert not is_entering(None)
    assert not may_enter(None)


def test_a_signal_that_comes_while_a_lock_is_waited_for_is_not_postponed_for_ever(frames_of_signals):
    postponement, found = Postponement(), []
    signal.signal(
        signal.SIGUSR2, lambda _number, frame: found.append(postponement.is_needed(is_unsafe=is_entering(frame)))
    )
    for _ in range(12):
        with Signals():
            pass
    is_possible = sys.version_info >= (3, 14)
    assert found == [is_possible] * 5 + [False] + [is_possible] * 5 + [False]


def waits_for(lock, limit, ended):
    """Acquire a lock within a limit."""
    try:
        with limit(StepDeadline("slow", SOON)), lock:
            for _ in range(1000):
                time.sleep(0.01)
    except StepTimeout:
        ended.append(True)


def test_a_limit_that_strikes_a_thread_that_waits_for_a_lock_leaves_it_unlocked():
    lock, ended = threading.Lock(), []
    limit = partial(limit_by_alarm, _watched_alarms())
    with lock:
        threads = [threading.Thread(target=waits_for, args=(lock, limit, ended)) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(3 * SOON)
    for thread in threads:
        thread.join()
    assert ended == [True] * 3
    assert not lock.locked()


def test_a_limit_in_the_main_thread_ends_the_wait_for_a_lock():
    lock, ended = threading.Lock(), []
    with lock:
        waits_for(lock, StepLimits().limit, ended)
        assert ended == [True]


def test_a_limit_in_the_main_thread_leaves_a_lock_unlocked_that_another_thread_releases():
    lock, ended = threading.Lock(), []
    lock.acquire()
    thread = threading.Thread(target=lambda: (time.sleep(SOON), lock.release()))
    thread.start()
    waits_for(lock, StepLimits().limit, ended)
    thread.join()
    assert ended == [True]
    assert not lock.locked()
