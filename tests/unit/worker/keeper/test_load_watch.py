"""What a worker tells of the load of its queues."""

import itertools
import os

import pytest

from pinlater import Job, RawJob
from pinlater.jobs.body_codec import JobCodec
from pinlater.model.workers import QueueLoad
from pinlater.protocol.codec import Codec
from pinlater.protocol.conversion.workers import WORKER, may_have_loads
from pinlater.server.api.worker_reports import MAX_REPORT_BYTES
from pinlater.worker.claim_table.snapshot import RUNNING, Identity
from pinlater.worker.keeper.load_watch import MOST_LOADS, LoadWatch
from pinlater.worker.keeper.report import build_report
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared

SECOND = 10**9


class Watched:
    """A worker of two pools, and a clock."""

    def __init__(self):
        self.shared = Shared.for_pools([JobPool(), JobPool("web", 1, {"web": 1})])
        self.now = 1000.0
        self.sources = map(str, itertools.count())
        self.watch = LoadWatch(self.shared, lambda: int(self.now * SECOND))

    def start(self, number=0, *, pool="jobs", capacity=1, **targets):
        row = self.shared.row(pool, number)
        kinds = ["Send", "Draw"]
        row.register(Identity(next(self.sources), ["mail", "web"], kinds, capacity, os.getpid(), 5, targets=targets))
        return row

    def run(self, queue="mail", *, number=0, seconds=1.0, times=1, kind=0, ending=None):
        counters = self.shared.process_counters("jobs", number)
        counters.register(["Send", "Draw"])
        counters.load_rows()
        for _ in range(times):
            if ending is None:
                counters.count_success(queue, kind, int(seconds * SECOND))
            else:
                counters.count_ending(queue, kind, ending, int(seconds * SECOND))

    def hold(self, row, descriptor="mail:s1:p1:1"):
        area = row.acquire_area()
        area.write("claim", [descriptor])
        area.states[0], area.started_ns[0] = RUNNING, int(self.now * SECOND)
        return area

    def loads(self, after=5.0):
        self.now += after
        return self.watch.recent()


def test_queues_without_a_target_are_not_told_of():
    watched = Watched()
    watched.start()
    watched.run()
    assert watched.loads() == []


def test_runs_of_all_processes_and_classes_are_added_up_since_the_watch_began():
    watched = Watched()
    watched.start(0, mail=5.0)
    watched.start(1, mail=2.5, capacity=3)
    watched.run(times=7)
    assert watched.loads() == [QueueLoad("mail", 2500, 4)]
    watched.run(times=3)
    watched.run(number=1, kind=1, seconds=0.5, ending="failed")
    watched.run("web", times=50)
    assert watched.loads() == [QueueLoad("mail", 2500, 4, 0, 5000, 4, 3500)]


def test_the_load_is_that_of_the_last_minute():
    watched = Watched()
    watched.start(mail=5.0)
    found = []
    for _ in range(40):
        watched.run(times=10, seconds=0.1)
        [load] = watched.loads()
        found.append((load.window_ms, load.runs, load.busy_ms))
    assert found[12:] == [(60_000, 120, 12_000)] * 28


def test_a_long_run_counts_as_it_passes_and_once():
    watched = Watched()
    row = watched.start(mail=5.0)
    watched.loads()
    area = watched.hold(row)
    seen = [watched.loads(20)[0] for _ in range(6)]
    assert [(load.running, load.runs, load.busy_ms) for load in seen[-2:]] == [(1, 0, 60_000)] * 2
    area.clear()
    watched.run(seconds=120)
    [load] = watched.loads(20)
    assert (load.running, load.runs, load.window_ms, load.busy_ms) == (0, 1, 60_000, 40_000)


@pytest.mark.parametrize("times", [2, 4, 9])
def test_a_process_that_is_replaced_takes_nothing_back(times):
    watched = Watched()
    row = watched.start(mail=5.0)
    watched.loads()
    watched.run(times=4)
    watched.loads()
    row.clear()
    watched.shared.counters.retire(0)
    watched.start(mail=5.0)
    watched.run(times=times)
    [load] = watched.loads()
    assert (load.runs, load.busy_ms) == (4 + times, 4000 + 1000 * times)


def test_a_run_that_ended_with_its_process_counts():
    watched = Watched()
    watched.start(mail=5.0)
    watched.loads()
    watched.shared.counters.keeper.count_ending_of("mail", "Send", "crashed", 3 * SECOND)
    [load] = watched.loads()
    assert (load.runs, load.busy_ms) == (1, 3000)


def test_the_report_has_the_loads_and_is_never_too_large():
    watched = Watched()
    watched.start(**{f"{number:03d}": 3600.0 for number in range(MOST_LOADS)})
    watched.start(1, **{f"{number:03d}": 3600.0 for number in range(MOST_LOADS, 2 * MOST_LOADS)})
    loads = [load._replace(queue=load.queue * 60, busy_ms=2**60, runs=2**60) for load in watched.loads()]
    struct = WORKER.struct(build_report(watched.shared, loads=loads))
    assert WORKER.record(struct).loads == tuple(loads)
    assert may_have_loads(Codec().encode_struct(struct))
    assert not may_have_loads(Codec().encode_struct(WORKER.struct(build_report(watched.shared))))
    assert len(loads) == MOST_LOADS
    assert len(Codec().encode_struct(struct)) < MAX_REPORT_BYTES // 3


class Send(Job, queue="mail", latency_target=5):
    pass


class SendNow(Send, latency_target=0.5):
    pass


class Count(RawJob, queue="raw", latency_target=60):
    pass


class Plain(Job, queue="plain"):
    pass


def test_the_smallest_target_of_the_classes_of_a_served_queue_counts():
    codec = JobCodec([Send, SendNow, Count, Plain])
    assert codec.latency_targets(["mail", "raw", "plain", "other"]) == {"mail": 0.5, "raw": 60}
    assert codec.latency_targets(["plain"]) == {}
