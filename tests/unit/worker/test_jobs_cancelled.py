"""Jobs that are cancelled: who learns of it, and what becomes of them."""

import asyncio
import contextlib
from math import inf
from time import monotonic, monotonic_ns

import pytest

from pinlater import ClaimLost, Job, JobCancelled
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.options import CANCEL_PATIENCE_SECONDS
from pinlater.model.body_metadata import BodyMetadata, Recurrence
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.claim_table.snapshot import HELD, RUNNING, Identity
from pinlater.worker.running import coroutines
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.outcome import Failure, Interruption, LostClaim
from pinlater.worker.session.solo_saver import SoloSaver
from tests.unit.worker.fakes import KeeperOfClaims, Line, batch_of, names
from tests.unit.worker.keeper.keeper_bench import LONG_AGO_NS, Bench
from tests.unit.worker.processes import team_jobs
from tests.unit.worker.stopped_jobs import WAYS, FakeSaver, team_of_tasks, trail


class Works(Job, queue="jobs"):
    how: str
    cursor: int = 0

    def run(self, context):
        context.step("first", trail.append, "first")
        assert not context.is_cancelled
        cancel(context)
        assert context.is_cancelled
        try:
            return plain[self.how](context)
        finally:
            trail.append("cleaned up")


class WorksLater(Job, queue="jobs", timeout=60):
    async def run(self, context):
        cancel(context)
        try:
            await asyncio.sleep(3600)
        finally:
            trail.append("cleaned up")


class Swallows(Job, queue="jobs"):
    async def run(self, context):
        cancel(context)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        trail.append("cleaned up")


class Ticks(Job, queue="jobs", every=3600):
    def run(self, context):
        cancel(context)
        context.checkpoint()


def cancel(context):
    """Do what the keeper does, of the only job of a batch."""
    context.batch.area.mark_cancelled(0, context.batch.fetched_ns, monotonic_ns())


def fail_in_cleanup(context):
    try:
        context.checkpoint()
    finally:
        raise ValueError("late")


def fail(context):
    raise ValueError("by itself")


plain = {
    **WAYS,
    "flush": lambda context: context.checkpoint(flush=True),
    "failure in cleanup": fail_in_cleanup,
    "failure": fail,
}
RETURNING = {"return", "reschedule", "failure"}
"""Ways to end without a look at the context."""


@pytest.fixture(autouse=True)
def no_trail():
    trail.clear()


@pytest.fixture
def runner():
    codec = JobCodec([Works, WorksLater, Swallows, Ticks])
    runner = Runner(codec, FakeSaver())
    yield runner
    runner.close()


def run(runner, job):
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(job)])
    return batch, runner.run(batch, 0, monotonic_ns())


def is_cancelled(outcome):
    ack = outcome.ack("jobs:s1:p1:7", "claim")
    assert ack[4:7] == (True, None, True)
    return isinstance(outcome, Failure) and (outcome.delay_ms, outcome.ending) == (None, CANCELLED)


@pytest.mark.parametrize("how", sorted(plain.keys() - RETURNING))
def test_the_next_call_raises_and_the_job_ends_as_cancelled(runner, caplog, how):
    caplog.set_level("INFO")
    _, outcome = run(runner, Works(how=how))
    assert is_cancelled(outcome)
    assert trail == ["first", "cleaned up"]
    assert "JobCancelled: the job was cancelled\n" in outcome.status
    assert "Traceback" not in outcome.status
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_a_job_that_returns_before_it_notices_has_succeeded(runner):
    assert run(runner, Works(how="return"))[1] is None
    assert isinstance(run(runner, Works(how="reschedule"))[1], Interruption)  # the store ends it


def test_a_job_that_fails_by_itself_says_why_and_is_not_tried_again(runner):
    outcome = run(runner, Works(how="failure"))[1]
    assert is_cancelled(outcome)
    assert "ValueError: by itself" in outcome.status
    assert "(it was cancelled)" in outcome.status


def test_a_job_that_was_cancelled_before_it_began_is_not_begun(runner):
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(Works(how="return"))])
    batch.mark_cancelled(0)
    assert is_cancelled(runner.run(batch, 0, monotonic_ns()))
    codec = JobCodec([Works, WorksLater])
    later = TaskRunner(codec, FakeSaver(), Deadlines(never_kill))
    batch = batch_of("jobs:s1:p1:7", bodies=[encode_body(WorksLater())])
    batch.mark_cancelled(0)
    assert is_cancelled(asyncio.run(later.run_awaited(batch, 0, monotonic_ns())))
    assert trail == []


def test_a_lost_claim_counts_more(runner):
    class Both(Job, queue="jobs"):
        def run(self, context):
            cancel(context)
            with contextlib.suppress(JobCancelled):
                context.checkpoint()
            context.batch.mark_lost(0)
            with pytest.raises(ClaimLost):
                context.checkpoint()

    codec = JobCodec([Both])
    assert run(Runner(codec, FakeSaver()), Both())[1] == LostClaim()


def test_a_periodic_job_has_no_next_tick(runner):
    body = encode_body(Ticks(), BodyMetadata(recurrence=Recurrence(1000, Ticks.job_options.schedule.text)))
    batch = batch_of("jobs:s1:p1:7", bodies=[body])
    assert is_cancelled(runner.run(batch, 0, monotonic_ns()))


@pytest.mark.parametrize("kind", [WorksLater, Swallows])
def test_a_coroutine_that_waits_is_cancelled(runner, monkeypatch, kind):
    monkeypatch.setattr(coroutines, "CHECK_SECONDS", 0.01)
    assert is_cancelled(run(runner, kind())[1])
    assert trail == ["cleaned up"]


@pytest.mark.parametrize("kind", [WorksLater, Swallows])
def test_one_of_many_coroutines_is_cancelled(monkeypatch, kind):
    with team_of_tasks(monkeypatch, WorksLater, Swallows) as bench:
        *_, cancelled = bench.start(*[team_jobs.Awaited(how="gate")] * 2, kind())
        [(name, outcome)] = bench.outcomes(1).items()
        assert name == cancelled.descriptors[0]
        assert is_cancelled(outcome)
        assert trail == ["cleaned up"]
        team_jobs.gate.set()
        assert list(bench.outcomes(2).values()) == [None, None]


# Who learns of it


class Saves(Job, queue="jobs"):
    def run(self, context):
        with pytest.raises(JobCancelled):
            context.checkpoint(flush=True)
        context.step("mail", trail.append, "mail")


def test_the_reply_of_a_save_tells_it(child):
    line = Line(is_cancelled=True)
    codec = JobCodec([Saves])
    runner = Runner(codec, SoloSaver(line, Calls("me", is_plain=True), child))
    batch, outcome = run(runner, Saves())
    assert is_cancelled(outcome)
    assert batch.is_cancelled(0)
    assert trail == []


@pytest.fixture
def bench(child):
    return Bench(child)


def cancelled_in(bench):
    return [job.position for batch in bench.row.snapshot().batches for job in batch.jobs if job.is_cancelled]


def test_the_keeper_tells_the_process_which_jobs_are_to_stop_and_the_master_who_kills_it(bench):
    bench.hold(RUNNING, RUNNING, HELD, age_ns=LONG_AGO_NS)
    _, second, third = names(3)
    bench.client.cancelled = {(second, "claim"), (third, "claim"), (names(1)[0], "of somebody else")}
    bench.turn()
    assert cancelled_in(bench) == [1, 2]
    assert bench.child.master_wakes == 1


def test_what_comes_too_late_does_not_concern_the_next_batch(bench):
    area = bench.hold(RUNNING)
    before, seen_ns = area.fetched_ns, monotonic_ns()
    area.clear()
    again = bench.hold(RUNNING)
    area.mark_cancelled(0, before, seen_ns)
    assert cancelled_in(bench) == []
    again.mark_cancelled(0, again.fetched_ns, seen_ns)
    assert cancelled_in(bench) == [0]


def test_the_first_request_counts(bench):
    area = bench.hold(RUNNING)
    area.mark_cancelled(0, area.fetched_ns, monotonic_ns())
    first = area.stop_ns[0]
    area.mark_cancelled(0, area.fetched_ns, monotonic_ns())
    assert area.stop_ns[0] == first


def test_renewals_tell_lost_claims_from_cancelled_jobs():
    first, second, third = names(3)
    store = KeeperOfClaims({first: "a", second: "b", third: "a"}, {second, third})
    renewal = store.renew([(first, "a"), (second, "a"), (third, "a")])
    assert renewal == ({(second, "a")}, {(third, "a")})


def test_a_job_that_is_held_twice_is_cancelled_under_its_new_claim():
    [first] = names(1)
    store = KeeperOfClaims({first: "new"}, {first})
    assert store.renew([(first, "old"), (first, "new")]) == ({(first, "old")}, {(first, "new")})


# Jobs that do not stop


def test_the_process_is_killed_for_a_job_that_does_not_stop(bench):
    bench.row.register(Identity("worker:me", ["mail"], ["Slow", "Quick"], patience=[60.0, 5.0]))
    area = bench.hold(RUNNING, RUNNING, HELD)
    assert bench.row.cancel_kill_at() == inf
    area.kinds[1] = 1
    for position in range(3):
        area.mark_cancelled(position, area.fetched_ns, monotonic_ns())
    assert 0 < bench.row.cancel_kill_at() - monotonic() <= 5
    area.states[1] = HELD
    assert 5 < bench.row.cancel_kill_at() - monotonic() <= 60
    area.states[0] = HELD
    assert bench.row.cancel_kill_at() == inf


def test_beside_others_it_is_not(bench):
    area = bench.hold(RUNNING)
    area.mark_cancelled(0, area.fetched_ns, monotonic_ns())
    assert bench.row.cancel_kill_at() == inf


def test_a_process_that_stands_still_amid_a_change_is_looked_at_again(bench, monkeypatch):
    monkeypatch.setattr("pinlater.worker.claim_table.row._READ_PAUSE_SECONDS", 0)
    area = bench.hold(RUNNING)
    area.mark_cancelled(0, area.fetched_ns, monotonic_ns())
    bench.row.words[0] += 1
    assert monotonic() < bench.row.cancel_kill_at() < inf


def test_the_class_says_how_long_it_may_take():
    """Whatever it says of the length of a run, which counts from its start, does not."""

    class Endless(Job, queue="jobs", kill_after=86400):
        pass

    class Patient(Job, queue="jobs", timeout=600, kill_after=900):
        pass

    class Usual(Job, queue="jobs", timeout=5):
        pass

    assert JobCodec([Endless, Patient, Usual]).cancel_patience == [
        CANCEL_PATIENCE_SECONDS,
        300,
        CANCEL_PATIENCE_SECONDS,
        CANCEL_PATIENCE_SECONDS,  # of a batch
    ]


@pytest.mark.parametrize(
    ("is_timeout", "told"), [(True, "did not stop in time"), (False, "] cancelled: the process died")]
)
def test_what_dies_with_its_process_ends_as_cancelled(bench, is_timeout, told):
    bench.row.register(Identity("worker:me", ["mail"], ["Slow"], 1, patience=[0.0]))
    area = bench.hold(RUNNING, HELD)
    area.mark_cancelled(0, area.fetched_ns, monotonic_ns())
    bench.time_out() if is_timeout else bench.die()
    bench.turn()
    [failed] = [jobs for what, jobs in bench.client.said if what == "failed" and jobs]
    [attempt] = failed
    assert attempt.ack[4:7] == (True, None, True)
    assert attempt.ending == CANCELLED
    assert told in attempt.status
    assert ("give back", [names(2)[1]]) in bench.client.said


def test_neighbours_of_a_job_that_did_not_stop_go_back(child):
    bench = Bench(child, places=3)
    bench.row.register(Identity("worker:me", ["mail"], ["Slow"], 3, patience=[0.0]))
    areas = bench.hold_each(RUNNING, RUNNING)
    areas[0].mark_cancelled(0, areas[0].fetched_ns, monotonic_ns())
    bench.time_out()
    bench.turn()
    [failed] = [jobs for what, jobs in bench.client.said if what == "failed" and jobs]
    assert [attempt.descriptor for attempt in failed] == names(1)
    assert ("give back", [names(2)[1]]) in bench.client.said
