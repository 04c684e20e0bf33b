"""How many workers a queue needs for its latency target."""

import asyncio
import math
import random

import pytest

from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterQueueLoad, PinLaterWorker
from pinlater.server.backends.records import KeptReport
from pinlater.server.background.sampling import sample_reports
from pinlater.server.background.workers_needed import Need, WorkersNeededSampler
from pinlater.server.metrics import Metrics


def need(run_seconds, *, target=5.0, rate=0.0, running=0, backlog=0.0, growth=0.0):
    return Need(target, run_seconds, rate, running, backlog, growth).slots()


# The formula


@pytest.mark.parametrize(("rate", "run_seconds", "slots"), [(10, 0.5, 5), (10, 0.05, 1), (100, 2, 200), (0, 2, 0)])
def test_without_a_backlog_as_many_slots_as_keep_up_with_the_arrivals(rate, run_seconds, slots):
    assert need(run_seconds, rate=rate) == slots


def test_jobs_that_arrive_faster_than_they_are_run_count():
    assert need(0.5, rate=10, growth=6) == 8


def test_a_backlog_that_shrinks_is_no_arrival():
    assert need(0.5, rate=10, growth=-6) == 2
    assert need(0.5, rate=10, growth=-16) == 0


def test_the_backlog_is_worked_off_within_the_target():
    assert need(0.5, backlog=1000) == 100
    assert need(0.5, backlog=1000, rate=10) == 105
    assert need(0.5, backlog=1000, target=50) == 10


def test_each_waiting_job_needs_a_slot_if_runs_take_longer_than_the_target():
    assert need(60, backlog=7, running=4) == 11
    assert need(3600, backlog=7) == 7


def test_running_jobs_keep_their_slots():
    assert need(0.5, running=30) == 30
    assert need(None, running=30, backlog=50) == 30


def test_one_slot_finds_out_how_long_runs_take():
    assert need(None) == 0
    assert need(None, backlog=100_000) == 1


def test_there_are_never_more_slots_than_jobs_that_run_wait_or_come_within_the_target():
    generator = random.Random(1)
    for _ in range(2000):
        rate, growth = generator.uniform(0, 100), generator.uniform(-100, 100)
        backlog, running = generator.randrange(1000), generator.randrange(100)
        found = need(10 ** generator.uniform(-3, 5), rate=rate, growth=growth, backlog=backlog, running=running)
        assert running <= found <= math.ceil(running + backlog + 5 * max(rate + growth, 0))


# Made-up arrivals: a queue and its workers by the second, with as many slots as are said to be needed


def waits_of_scaled_queue(arrivals, *, run_seconds, target, every=15, step=0.1):
    """Return (second, wait) of each job, if ``arrivals(second)`` come a second and the slots follow every 15 s."""
    due, running, waits, counts = [], [], [], [(0.0, 0, 0)]
    slots = ended = 0
    owed = 0.0
    for tick in range(round(900 / step)):
        now = tick * step
        owed += arrivals(now) * step
        due += [now] * int(owed)
        owed -= int(owed)
        ended += sum(end <= now for end in running)
        running = [end for end in running if end > now]
        for _ in range(min(len(due), slots - len(running))):
            waits.append((now, now - due.pop(0)))
            running.append(now + run_seconds)
        if tick % round(every / step) == 0:
            began, ended_then, due_then = next(one for one in counts if one[0] >= now - 60)
            seconds = max(now - began, step)
            rate, growth = (ended - ended_then) / seconds, (len(due) - due_then) / seconds
            slots = Need(target, run_seconds if ended else None, rate, len(running), len(due), growth).slots()
            counts.append((now, ended, len(due)))
    return waits, slots


@pytest.mark.parametrize(("per_second", "run_seconds"), [(4, 0.5), (20, 2.0), (2, 20.0), (1, 60.0)])
def test_jobs_that_come_evenly_start_within_the_target(per_second, run_seconds):
    waits, slots = waits_of_scaled_queue(lambda _: per_second, run_seconds=run_seconds, target=5)
    late = [wait for second, wait in waits if second > 400 and wait > 5]
    assert len(waits) > 800 * per_second
    assert late == []
    assert per_second * run_seconds <= slots <= 1.5 * per_second * run_seconds + 5 * per_second + 1


def test_a_burst_is_worked_off_and_the_slots_go():
    waits, slots = waits_of_scaled_queue(lambda second: 40 if 300 <= second < 360 else 1, run_seconds=1.0, target=10)
    assert all(wait <= 10 for second, wait in waits if 200 < second < 300 or second > 420)
    assert slots <= 3


# The gauges


class Store:
    def __init__(self, *workers):
        self.workers = list(workers)

    async def reports(self):
        return [
            KeptReport(worker.workerId, Codec().encode_struct(worker), 5)
            if worker
            else KeptReport("odd", b"\x0f\x00\x0b\x0c\xff", 5)
            for worker in self.workers
        ]


def worker(name, *loads, draining=False):
    return PinLaterWorker(workerId=name, host="a", isDraining=draining, queueLoads=[*loads])


def load(queue="mail", target=5.0, *, slots=4, running=0, window=60.0, runs=0, busy=0.0):
    times = [round(1000 * seconds) for seconds in (target, window, busy)]
    return PinLaterQueueLoad(queue, times[0], slots, running, times[1], runs, times[2])


class Sampled:
    def __init__(self, *workers, backlog=None):
        self.metrics, self.store, self.now = Metrics(), Store(*workers), 1000.0
        self.backlog(**({"mail": 0} if backlog is None else backlog))
        self.sampler = WorkersNeededSampler(self.metrics, clock=lambda: self.now)
        self.sample()

    def backlog(self, **queues):
        self.metrics.backlog_jobs.retain(queues)
        for queue, jobs in queues.items():
            self.metrics.backlog_jobs.set(queue, jobs)

    def sample(self, *workers, seconds=15):
        self.store.workers = list(workers) or self.store.workers
        self.now += seconds
        asyncio.run(sample_reports(self.store, [self.sampler.sample]))
        return self.metrics.workers_needed.by_queue()


def test_the_loads_of_all_workers_are_added_up():
    found = Sampled(
        worker("1", load(runs=600, busy=120)),
        worker("2", load(target=2, runs=300, busy=240, slots=8), draining=True),
        backlog={"mail": 100},
    )
    # 15 a second of 0.4 s each, and 100 jobs to start within 2 s.
    assert found.metrics.workers_needed.by_queue() == {"mail": 6 + 20}
    assert found.metrics.worker_slots.by_queue() == {"mail": 4}
    assert found.metrics.latency_target_seconds.by_queue() == {"mail": 2}


def test_queues_without_a_target_have_no_series():
    assert Sampled(worker("1"), PinLaterWorker(workerId="old", host="b"), backlog={"mail": 9}).sample() == {}


def test_a_report_that_cannot_be_read_hides_no_other():
    assert Sampled(None, worker("1", load(running=3))).sample() == {"mail": 3}


def test_the_growth_of_the_backlog_counts_as_arrivals():
    found = Sampled(worker("1", load(runs=600, busy=600)))
    found.backlog(mail=30)
    assert found.sample() == {"mail": 10 + 2 + 6}


def test_a_backlog_from_before_the_first_sample_has_not_grown():
    found = Sampled(worker("1", load(target=60, runs=600, busy=300)), backlog={"sms": 0})  # not all are sampled yet
    found.backlog(sms=0, mail=12_000)
    keeping_up, catching_up = 5, 100
    assert [found.sample()["mail"] for _ in range(6)] == [keeping_up + catching_up] * 6
    found.backlog(sms=0, mail=12_600)
    assert found.sample()["mail"] == 5 + 5 + 105  # ten a second more, of half a second each


def test_a_worker_that_has_just_started_ran_nothing_before():
    found = Sampled(worker("1", load(runs=600, busy=60)), worker("2", load(window=6, runs=60, busy=60)))
    assert found.sample() == {"mail": 2}


def test_a_paused_queue_needs_what_runs():
    found = Sampled(worker("1", load(runs=600, busy=600, running=3)))
    found.backlog(mail=3000)
    found.metrics.paused.set("mail", 1.0)
    assert found.sample(worker("1", load(running=3))) == {"mail": 3}
    found.metrics.paused.set("mail", 0.0)
    assert found.sample()["mail"] >= 600


def test_what_is_known_survives_the_last_worker_but_not_the_queue():
    found = Sampled(worker("1", load(runs=600, busy=600, running=9)))
    found.store.workers = []
    assert found.sample(seconds=120) == {"mail": 0}
    assert found.metrics.worker_slots.by_queue() == {"mail": 0}
    found.backlog(mail=50)
    assert found.sample(seconds=120)["mail"] >= 10
    found.backlog(sms=1)
    assert found.sample() == {}


def test_the_run_time_survives_a_minute_without_runs():
    found = Sampled(worker("1", load(runs=600, busy=600)))
    found.backlog(mail=10)
    found.sample(worker("1", load()), seconds=120)
    assert found.sample(seconds=120) == {"mail": 2}


def test_a_run_in_progress_tells_how_long_runs_take():
    assert Sampled(worker("1", load(running=1, busy=60)), backlog={"mail": 7}).sample() == {"mail": 8}
