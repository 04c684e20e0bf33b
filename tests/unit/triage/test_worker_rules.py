"""Rules about workers."""

import pytest

from pinlater.model.class_name import NO_CLASS
from pinlater.model.workers import RunningJob, UnknownJobs
from pinlater.triage.worker_rules import (
    cannot_start,
    clock_off,
    memory_grows,
    missing_queue,
    unfitting_steps,
    unknown_class,
    worker_silent,
)
from tests.unit.triage.readings import NOW_MS, found, kinds, process, readings, worker

MIB = 2**20


def test_a_class_that_no_worker_knows():
    unknown = [UnknownJobs("email", "Newsletter", 12, NOW_MS - 5000), UnknownJobs("elsewhere", "X", 1, NOW_MS)]
    looked_at = readings(workers=[worker(unknown=unknown), worker(host="web2", unknown=unknown)])
    [finding] = found(unknown_class, looked_at)
    assert (finding.severity, finding.queue, finding.job) == ("critical", "email", "Newsletter")
    assert (
        "given back jobs of class Newsletter in queue email 24 times, the last time 5 seconds ago" in finding.sentence
    )
    assert "or cannot read its fields, as the status of such a job says" in finding.sentence
    once = [UnknownJobs("email", "Newsletter", 1, NOW_MS - 5000)]
    assert " in queue email once, " in found(unknown_class, readings(workers=[worker(unknown=once)]))[0].sentence
    assert found(unknown_class, readings(workers=[worker()])) == []


def test_jobs_whose_bodies_name_no_class():
    looked_at = readings(workers=[worker(unknown=[UnknownJobs("email", NO_CLASS, 2, NOW_MS - 5000)])])
    [finding] = found(unknown_class, looked_at)
    assert finding.title == "No worker of queue email can read jobs without a class"
    assert "5 seconds ago: their bodies are not JSON that names a class." in finding.sentence
    assert finding.advice.startswith("If another program writes them, deploy a RawJob class for the queue")
    assert finding.command == "pinlater scan email --future"


def test_jobs_that_wait_long_for_code_that_fits_their_steps():
    for minutes, is_found in ((9, False), (11, True)):
        waiting = [UnknownJobs("email", "Order", 7, NOW_MS - 1000, NOW_MS - 1000 - minutes * 60_000)]
        looked_at = readings(workers=[worker(unfitting=waiting), worker(host="web2")])
        findings = found(unfitting_steps, looked_at)
        assert bool(findings) is is_found
    assert (findings[0].severity, findings[0].queue, findings[0].job) == ("warning", "email", "Order")
    assert findings[0].title == "Jobs of class Order in queue email wait for code that fits their steps"
    assert "For 11 minutes, workers have given back jobs of class Order" in findings[0].sentence
    assert found(unfitting_steps, readings("sms", workers=[worker(unfitting=waiting)])) == [], "of another queue"


def test_jobs_wait_for_a_queue_that_nobody_has_created():
    waiting = [UnknownJobs("email", "Follows", 2, NOW_MS - 5000, NOW_MS - 60_000)]
    looked_at = readings(workers=[worker(queueless=waiting), worker(host="web2", queueless=waiting)])
    [finding] = found(missing_queue, looked_at)
    assert (finding.severity, finding.queue, finding.job) == ("warning", "email", "Follows")
    assert finding.title == "Jobs of class Follows in queue email wait for a queue that does not exist"
    assert "4 times, the last time 5 seconds ago: they enqueue others" in finding.sentence
    assert finding.since_ms == NOW_MS - 60_000
    assert kinds(looked_at) == ["missing_queue"]
    assert found(missing_queue, readings("sms", workers=[worker(queueless=waiting)])) == [], "of another queue"


def test_the_connection_of_a_worker_ends():
    lost = worker(process(), process(9), lost_ms=NOW_MS - 8000)
    [finding] = found(worker_silent, readings(workers=[lost]))
    assert finding.sentence == "The worker web1 7 ended its connection 8 seconds ago without a word."
    assert finding.since_ms == NOW_MS - 8000


def test_a_worker_falls_silent():
    busy = process(jobs=[RunningJob("email:s1:p1:1", NOW_MS)])
    [finding] = found(worker_silent, readings(workers=[worker(busy, silent=20)]))
    assert "The worker web1 7 has not reported for 20 seconds. What it ran, 1 job, goes to others" in finding.sentence
    assert found(worker_silent, readings(workers=[worker(busy, silent=6)])) == []
    assert found(worker_silent, readings("sms", workers=[worker(busy, silent=20)])) == [], "of another queue"


def test_a_worker_that_keeps_old_code_since_the_new_one_cannot_be_loaded():
    [finding] = found(cannot_start, readings(workers=[worker(cannot_start=True), worker(host="web2")]))
    assert (finding.severity, finding.worker, finding.command) == ("warning", "web1:7", "kill -HUP 7")
    assert finding.sentence.startswith("New processes of the worker web1 7 cannot start; those from before go on")
    assert found(cannot_start, readings(workers=[worker(cannot_start=True, silent=20)])) == []


@pytest.mark.parametrize(("ahead", "severity"), [(-7, "warning"), (8, "warning"), (3600, "critical")])
def test_a_clock_is_off(ahead, severity):
    [finding] = found(clock_off, readings(workers=[worker(sent_ms=NOW_MS - 1000 + 1000 * ahead)]))
    assert finding.severity == severity
    assert ("ahead of" if ahead > 0 else "behind") in finding.sentence
    assert finding.numbers == {"ahead_seconds": ahead}


def test_a_clock_is_right_or_unknown():
    assert found(clock_off, readings(workers=[worker(sent_ms=NOW_MS - 3000), worker()])) == []


def leaky(pid=8, start=100, now=400, ended=300):
    return process(pid, memory_at_start_bytes=start * MIB, memory_bytes=now * MIB, ended=ended)


def test_job_processes_leak():
    [finding] = found(memory_grows, readings(workers=[worker(leaky(now=300), leaky(9), process(10))]))
    assert finding.sentence.startswith(
        "Process 9 of worker web1 7 has grown from 100 MiB to 400 MiB while it ran 300 jobs: about 1 MiB a job"
    )
    assert "So have 1 more of its processes." in finding.sentence


@pytest.mark.parametrize(
    "sound",
    [leaky(now=190), leaky(start=500, now=900), leaky(ended=3), process(memory_bytes=900 * MIB, ended=500)],
    ids=["little", "less than twice", "few jobs", "start unknown"],
)
def test_growth_that_is_no_leak(sound):
    assert found(memory_grows, readings(workers=[worker(sound)])) == []
    assert found(memory_grows, readings("sms", workers=[worker(leaky())])) == [], "of another queue"
