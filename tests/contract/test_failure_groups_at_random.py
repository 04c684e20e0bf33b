"""Random calls about jobs that fail: counts and scans of failure groups agree with the jobs, also over two shards."""

import random

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.contract.test_failure_groups import LATE, REFUSED, groups, place
from tests.support.bench import LEASE_MS, QUEUE, new_job
from tests.support.stores import HOMES


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


OPERATIONS = (
    "put", "put", "put_keyed", "take", "take", "ack", "fail", "fail", "fail", "fail_finally", "give_back", "sleep",
    "send", "attempts", "retry", "cancel", "now", "delete", "reap", "advance", "release",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_scans_agree_with_the_jobs_whatever_is_done(backend, seed):
    chance = random.Random(seed)
    names = []
    for _ in range(120):
        do(backend, chance, chance.choice(OPERATIONS), names)
    check(backend, names)


def looked_up(backend, names):
    """Look at all jobs that are still there, in one call: one for each would be most of what the test takes."""
    found = backend.lookup_jobs([JobDescriptor.parse(name) for name in names], include_body=False)
    return [record for record in found if record is not None]


def do(backend, chance, operation, names):
    now = backend.clock.now_ms
    some = chance.sample(names, min(len(names), 3))
    running = [record.descriptor for record in looked_up(backend, names) if record.state == IN_PROGRESS][:3]
    jobs = [JobDescriptor.parse(name) for name in some]
    match operation:
        case "put":
            names += backend.put(new_job(priority=chance.randint(1, 3), attempts=chance.randint(1, 4)))
        case "put_keyed":
            key = JobKey(chance.choice("ab"), chance.choice([1, 2]))
            names += backend.put(*[new_job(attempts=3, key=key) for _ in range(2)])
        case "take":
            backend.take(chance.randint(1, 6))
        case "ack":
            backend.ack(*running)
        case "fail" | "fail_finally":
            failure = chance.choice([REFUSED, LATE])
            is_final = operation == "fail_finally"
            backend.fail(*running, failure=failure, retry_delay_ms=chance.choice([0, 0, 900]), is_final=is_final)
        case "give_back":
            for name in running:
                backend.checkpoint(name, move_to_pending=True, run_after_ms=chance.choice([now, now + 700]))
        case "sleep":
            for name in running:
                backend.sleep(name, ("go", 1))
        case "send":
            for name in some:
                backend.send(name)
        case "attempts":
            for name in running:
                backend.checkpoint(name, attempts=2, move_to_pending=chance.random() < 0.5)
        case "retry":
            backend.retry_these_jobs(QUEUE, jobs, chance.randint(1, 3), chance.choice([None, now + 100]))
        case "cancel":
            backend.cancel(*some[:1])
        case "now":
            backend.schedule_jobs(QUEUE, jobs, chance.choice([None, now + 300]))
        case "delete":
            state = chance.choice([PENDING, SUCCEEDED, FAILED])
            backend.delete_these_jobs(QUEUE, jobs[:1], state)
        case "reap":
            backend.clock.advance(LEASE_MS)
            backend.reap()
        case "advance":
            backend.clock.advance(chance.choice([1, 1000]))
        case "release":
            backend.release_claims(QUEUE, "worker")


def check(backend, names):
    records = looked_up(backend, names)
    failed = [record for record in records if record.failure_group is not None and record.state in {PENDING, FAILED}]
    retrying = [record for record in failed if record.state == PENDING]
    assert any(failed), "nothing was tested"
    for is_future in (None, True, False):
        expected = [
            record.descriptor
            for record in retrying
            if is_future is None or (record.run_after_ms > backend.clock.now_ms) == is_future
        ]
        found = backend.scan(is_retrying=True, is_future=is_future, limit=1000).jobs
        assert sorted(one.descriptor for one in found) == sorted(expected)
        assert backend.count(is_retrying=True, is_future=is_future) == len(expected)
    for group, (given_up, waiting) in groups(backend).items():
        for state, number in ((FAILED, given_up), (PENDING, waiting)):
            own = [one for one in failed if (one.state, one.failure_group) == (state, group)]
            assert len(own) == number
            scanned = backend.scan(state, failure_group=group, limit=1000, oldest_first=True).jobs
            assert [one.descriptor for one in scanned] == [
                one.descriptor for one in sorted(own, key=lambda one: (one.run_after_ms, *place(one.descriptor)))
            ]
    assert {one.failure_group for one in failed} == groups(backend).keys()
