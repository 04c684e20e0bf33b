"""What the metrics say of workers, by their reports."""

import asyncio
import itertools

from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterWorker, PinLaterWorkerProcess
from pinlater.server.backends.records import KeptReport
from pinlater.server.background import report_sampler
from pinlater.server.background.report_sampler import MOST_WORKERS, ReportSampler
from pinlater.server.background.sampling import sample_reports
from pinlater.server.metrics import Metrics

NOW_MS = 1_700_000_000_000
MIB = 2**20


def report(pid, *processes, age_ms=0, ahead_ms=0, **options):
    at_ms = NOW_MS - age_ms
    worker = PinLaterWorker(
        workerId=str(pid),
        host="web",
        pid=pid,
        processes=[
            PinLaterWorkerProcess(number, queueNames=queues, memoryBytes=now, memoryAtStartBytes=start)
            for number, (queues, start, now) in enumerate(processes)
        ],
        sentAtTimestampMillis=at_ms + ahead_ms,
        **options,
    )
    return KeptReport(str(pid), Codec().encode_struct(worker), at_ms)


def sampled(*reports, queues=("mail", "sms")):
    metrics = Metrics()
    for queue in queues:
        metrics.backlog_jobs.set(queue, 0)
    asyncio.run(ReportSampler(metrics, lambda: NOW_MS).sample(reports))
    return metrics


def test_who_serves_a_queue():
    serves = (["mail"], None, None)
    metrics = sampled(
        report(1, serves, serves),
        report(2, (["mail", "elsewhere"], None, None)),
        report(3, serves, isDraining=True),
        report(4, serves, age_ms=60_000),
        KeptReport("5", b"no report", NOW_MS),
    )
    assert metrics.worker_processes.by_queue() == {"mail": 3, "sms": 0}


def test_clocks_that_are_off():
    metrics = sampled(report(1, ahead_ms=400), report(2, ahead_ms=-90_000), report(3, ahead_ms=7_000))
    assert metrics.worker_clock_ahead_seconds.by_queue() == {"web 2": -90, "web 3": 7}


def test_processes_that_grow():
    queues = ["mail"]
    metrics = sampled(
        report(1, (queues, 100 * MIB, 140 * MIB), (queues, 100 * MIB, 300 * MIB), (queues, None, 900 * MIB)),
        report(2, (queues, 100 * MIB, 149 * MIB)),
    )
    assert metrics.worker_memory_growth_bytes.by_queue() == {"web 1": 200 * MIB}


def test_of_very_many_workers_the_worst_are_shown():
    metrics = sampled(*(report(number, ahead_ms=2000 + number) for number in range(MOST_WORKERS + 20)))
    shown = metrics.worker_clock_ahead_seconds.by_queue()
    assert len(shown) == MOST_WORKERS
    assert "web 0" not in shown


def test_a_large_sample_is_not_taken_again_soon(monkeypatch):
    clock = itertools.count(step=2.0)
    monkeypatch.setattr(report_sampler.time, "perf_counter", lambda: next(clock))
    metrics = Metrics()
    sampler = ReportSampler(metrics, lambda: NOW_MS)
    shown = []
    for ahead_ms in (7_000, *[9_000] * 250):
        asyncio.run(sampler.sample([report(1, ahead_ms=ahead_ms)]))
        shown.append(metrics.worker_clock_ahead_seconds.by_queue()["web 1"])
    assert 100 < shown.count(7) < 250  # the first took some looks at the clock, of 2 s each
    assert shown[-1] == 9


def test_reports_are_read_once_for_all_samples():
    taken, read = [], []

    class Store:
        async def reports(self):
            read.append([report(1)])
            return read[-1]

    async def sample(reports):
        taken.append(reports)

    asyncio.run(sample_reports(Store(), [sample, sample]))
    assert taken == read * 2
