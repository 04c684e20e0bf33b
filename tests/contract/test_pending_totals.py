"""Each pending job is counted once: as pending, scheduled, waiting for its key, or retrying."""

from collections import Counter

import pytest

from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import PENDING
from pinlater.server.background.queue_sampler import QueueSampler
from pinlater.server.metrics import Metrics
from tests.contract.test_failure_groups import failing
from tests.support.bench import QUEUE, new_job
from tests.support.stores import HOMES

HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


def _fill(backend):
    """Store jobs of each kind, among them retrying ones that are due, are not, and wait for their key."""
    for delay_ms in [5] * 4 + [HOUR_MS] * 3:
        failing(backend, retry_delay_ms=delay_ms)
    for _ in range(3):
        failing(backend, retry_delay_ms=HOUR_MS, key=JobKey("ada", max_running=1))
    backend.put(*[new_job(key=JobKey("ada", max_running=1)) for _ in range(5)])
    later = backend.clock.now_ms + HOUR_MS
    for number in range(12):
        backend.put_one(run_after_ms=later if number % 2 else None, priority=number % 3 + 1)


def _kind(job, now_ms):
    if job.failure_group is not None:
        return "retrying"
    if job.run_after_ms >= WAITS_FOR_KEY_MS:
        return "waiting_for_key"
    return "scheduled" if job.run_after_ms > now_ms else "pending"


def test_no_pending_job_is_counted_twice(backend):
    _fill(backend)
    backend.clock.advance(10)
    now_ms, jobs = backend.clock.now_ms, backend.scan(PENDING, limit=500).jobs
    expected = Counter(_kind(job, now_ms) for job in jobs)
    retrying = [job.run_after_ms for job in jobs if job.failure_group is not None]
    assert min(retrying) <= now_ms < max(retrying), "some have to be due, and some not"
    assert max(retrying) >= WAITS_FOR_KEY_MS, "some have to wait for their key"
    metrics = Metrics()
    backend.run(QueueSampler(backend.backend, metrics, lambda _: False).sample())
    levels = {one.info.name: one.values.get(QUEUE) for one in metrics.snapshot() if hasattr(one, "values")}
    found = {name: levels[f"pinlater_queue_{name}_jobs"] for name in ("retrying", "scheduled", "waiting_for_key")}
    found["pending"] = levels["pinlater_queue_backlog_jobs"] - levels["pinlater_queue_due_retrying_jobs"]
    assert found == expected
    assert sum(found.values()) == len(jobs)
