"""What a worker makes of the memory of its job processes."""

import math
import random

import pytest

from pinlater.model.workers import WorkerProcess
from pinlater.worker.keeper.memory_watch import MemorySample, MemoryWatch, lasting_growth

MIB = 2**20


def process(pid, memory, ended, started_ms=1):
    return WorkerProcess(pid, started_ms=started_ms, memory_bytes=memory, ended=ended)


def starts(watch, *processes):
    return [each.memory_at_start_bytes for each in watch.noted(processes)]


def growth(memory_of, jobs=400, step=1):
    """Return the growth that a watch finds which looks after each ``step`` jobs; ``memory_of`` returns MiB."""
    watch = MemoryWatch()
    for ended in range(1, jobs + 1, step):
        [found] = watch.noted([process(7, round(memory_of(ended) * MIB), ended)])
    return (found.memory_bytes - found.memory_at_start_bytes) / MIB


STEADY = {
    "nothing": lambda ended: 100.0,
    "a warm-up with the first job": lambda ended: 50.0 if ended < 2 else 400.0,
    "a warm-up that levels off": lambda ended: 100 + 300 * (1 - math.exp(-ended / 40)),
    "one class after the other": lambda ended: 100 + 80 * min(ended // 30, 5),
    "one large job": lambda ended: 100.0 if ended < 300 else 500.0,
    "two large jobs": lambda ended: 100 + 200 * (ended > 250) + 200 * (ended > 350),
    "memory that is given back at times": lambda ended: 100 + 4 * (ended % 60),
    "it shrinks": lambda ended: 500 - ended,
}


@pytest.mark.parametrize("series", STEADY.values(), ids=STEADY)
@pytest.mark.parametrize("step", [1, 7, 20])
def test_what_levels_off_or_comes_once_is_no_growth(series, step):
    assert growth(series, step=step) < 30


@pytest.mark.parametrize("step", [1, 7, 20])
def test_a_leak_is_growth(step):
    assert growth(lambda ended: 100 + ended, step=step) == pytest.approx(399, abs=20)
    noise = random.Random(7)
    assert 200 < growth(lambda ended: 100 + ended + noise.uniform(-5, 5), step=step) < 450


def test_a_leak_is_found_beside_a_warm_up():
    assert 250 < growth(lambda ended: 100 + 200 * min(ended / 50, 1) + ended) < 450


def test_a_leak_that_begins_late_is_found_in_the_end():
    def late(ended):
        return 100 + max(ended - 200, 0)

    assert growth(late, jobs=200) == 0
    assert growth(late, jobs=600) == pytest.approx(400, abs=10)


def test_growth_that_slows_down_counts_less():
    assert growth(lambda ended: 100 + 60 * math.log(ended)) < 100 < 60 * math.log(400)


def test_few_steps_say_nothing():
    assert lasting_growth([]) == 0
    assert lasting_growth([MemorySample(ended, ended * 100) for ended in (1, 2, 3)]) == 0
    assert lasting_growth([MemorySample(ended, ended * 100) for ended in (1, 2, 3, 4)]) == 300


def test_samples_reach_back_to_the_first_job_and_are_few():
    watch = MemoryWatch()
    for ended in range(1, 100_000, 10):
        watch.measure([process(7, ended, ended)])
    [samples] = watch._samples.values()
    assert samples[0].ended == 1
    assert len(samples) < 30


def test_another_process_with_the_same_id_starts_anew():
    watch = MemoryWatch()
    for ended in range(1, 9):
        starts(watch, process(7, 100 * ended, ended))
    assert starts(watch, process(7, 800, 9)) < [800]
    assert starts(watch, process(7, 900, 9, started_ms=2)) == [900]


def test_processes_that_have_ended_are_forgotten():
    watch = MemoryWatch()
    starts(watch, process(7, 300, 1))
    starts(watch)
    assert watch._samples == {}


def test_unknown_memory_stays_unknown():
    watch = MemoryWatch()
    assert starts(watch, process(7, None, 5)) == [None]
    starts(watch, process(7, 300, 6))
    assert starts(watch, process(7, None, 7)) == [None]
    assert len(watch._samples) == 1
