"""Jobs that are no longer the worker's: who learns of it, and what becomes of them."""

import asyncio
from time import monotonic_ns

import pytest

from pinlater import ClaimLost, Discard, Job, Retry
from pinlater.errors import JobTimeout
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.snapshot import HELD, RUNNING, SUCCEEDED
from pinlater.worker.running import coroutines
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.outcome import LostClaim
from pinlater.worker.session.solo_saver import SoloSaver
from tests.unit.worker.fakes import KeeperOfClaims, Line, batch_of, names
from tests.unit.worker.keeper.keeper_bench import LONG_AGO_NS, Bench
from tests.unit.worker.processes import team_jobs
from tests.unit.worker.stopped_jobs import WAYS, FakeSaver, team_of_tasks, trail


class Works(Job, queue="jobs"):
    how: str

    def run(self, context):
        trail.append("began")
        context.step("first", trail.append, "first")
        lose(context)
        plain[self.how](context)


class WorksLater(Job, queue="jobs", timeout=60):
    how: str = ""

    async def run(self, context):
        trail.append("began")
        lose(context)
        try:
            await asyncio.sleep(3600)
        finally:
            trail.append("cleaned up")


def lose(context):
    """Do what the keeper does, of the only job of a batch."""
    context.batch.mark_lost(0)


def raising(error):
    def run(context):
        raise error

    return run


plain = {
    **WAYS,
    "failure": raising(ValueError("late")),
    "retry": raising(Retry(5)),
    "discard": raising(Discard("no")),
    "exit": raising(SystemExit(1)),
    "time-out": raising(JobTimeout()),
}


@pytest.fixture(autouse=True)
def no_trail():
    trail.clear()


@pytest.fixture
def runner():
    codec = JobCodec([Works, WorksLater])
    runner = Runner(codec, FakeSaver())
    yield runner
    runner.close()


@pytest.mark.parametrize("how", plain)
def test_the_next_call_raises_and_nothing_of_the_attempt_counts(runner, caplog, how):
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(Works(how=how))])
    assert runner.run(batch, 0, monotonic_ns()) == LostClaim()
    assert trail == ["began", "first"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "has lost its claim" in caplog.text


def test_a_job_that_was_lost_before_it_began_is_not_begun(runner):
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(Works(how="return"))])
    batch.mark_lost(0)
    assert runner.run(batch, 0, monotonic_ns()) == LostClaim()
    codec = JobCodec([Works, WorksLater])
    later = TaskRunner(codec, FakeSaver(), Deadlines(never_kill))
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(WorksLater())])
    batch.mark_lost(0)
    assert asyncio.run(later.run_awaited(batch, 0, monotonic_ns())) == LostClaim()
    assert trail == []


def test_a_coroutine_that_waits_is_cancelled(runner, monkeypatch):
    monkeypatch.setattr(coroutines, "CHECK_SECONDS", 0.01)
    for _ in range(2):
        batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(WorksLater())])
        assert runner.run(batch, 0, monotonic_ns()) == LostClaim()
    assert trail == ["began", "cleaned up"] * 2


def test_one_of_many_coroutines_is_cancelled(monkeypatch):
    with team_of_tasks(monkeypatch, WorksLater) as bench:
        *_, lost = bench.start(*[team_jobs.Awaited(how="gate")] * 2, WorksLater())
        assert bench.outcomes(1) == {lost.descriptors[0]: LostClaim()}
        assert trail == ["began", "cleaned up"]
        team_jobs.gate.set()
        assert list(bench.outcomes(2).values()) == [None, None]


# Who learns of it


def test_the_reply_of_a_save_tells_it(child):
    line = Line(is_cancelled=False)
    codec = JobCodec([Saves])
    runner = Runner(codec, SoloSaver(line, Calls("me", is_plain=True), child))
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(Saves())])
    assert runner.run(batch, 0, monotonic_ns()) == LostClaim()
    assert trail == ["began"]


class Saves(Job, queue="jobs"):
    def run(self, context):
        trail.append("began")
        with pytest.raises(ClaimLost):
            context.checkpoint(flush=True)
        context.step("mail", trail.append, "mail")


@pytest.fixture
def bench(child):
    return Bench(child)


def is_lost(area, position):
    return area.stop_ns[position] == area.fetched_ns


def test_the_keeper_tells_the_process_which_claims_have_ended(bench):
    area = bench.hold(SUCCEEDED, RUNNING, HELD, age_ns=LONG_AGO_NS)
    other = bench.hold(RUNNING, age_ns=LONG_AGO_NS, claim="another")
    _, second, third = names(3)
    bench.client.lost = {(second, "claim"), (third, "claim"), (names(1)[0], "of somebody else")}
    bench.turn()
    assert [is_lost(area, position) for position in range(3)] == [False, True, True]
    assert not is_lost(other, 0)


def test_what_comes_too_late_does_not_concern_the_next_batch(bench):
    area = bench.hold(RUNNING)
    before = area.fetched_ns
    area.clear()
    again = bench.hold(RUNNING)
    again.mark_cancelled(0, again.fetched_ns, monotonic_ns())
    mark = again.stop_ns[0]
    area.mark_lost(0, before)
    again.mark_lost(0, before)
    assert not is_lost(again, 0)
    assert again.stop_ns[0] == mark, "that it was cancelled is not forgotten"
    again.mark_lost(0, again.fetched_ns)
    assert is_lost(again, 0)


def test_renewals_return_the_claims_that_have_ended():
    first, second, third = names(3)
    store = KeeperOfClaims({first: "a", second: "b", third: "a"})
    assert store.renew([(first, "a"), (third, "a")]).lost == set()
    assert store.calls == 1
    assert store.renew([(first, "a"), (second, "a"), (third, "x")]).lost == {(second, "a"), (third, "x")}
    assert store.calls == 2


def test_of_a_job_that_is_held_twice_only_the_old_claim_has_ended():
    [first] = names(1)
    store = KeeperOfClaims({first: "new"})
    assert store.renew([(first, "old"), (first, "new")]).lost == {(first, "old")}


def test_with_its_queue_all_claims_have_ended():
    jobs = [(name, "a") for name in names(2, "deleted")]
    assert KeeperOfClaims({}).renew(jobs).lost == set(jobs)


def test_the_claim_table_fits_many_long_queue_names(bench):
    area = bench.row.acquire_area()
    descriptors = [f"{'q' * 60}:s12345:p1:{10**12 + number}" for number in range(250)]
    assert area.write("host:9010:1700000000000:worker:host:1234:abcdef12.1:7", descriptors) == 250
