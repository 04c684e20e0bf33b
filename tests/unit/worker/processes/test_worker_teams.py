"""Several jobs at once beside the main thread: how they start and end, and their limits."""

import asyncio
import time

import pytest

from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import BodyMetadata, SagaMark
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.running import task_runner
from pinlater.worker.running.coroutines import CHECK_SECONDS
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Failure, Interruption
from tests.unit.worker.fakes import batch_of
from tests.unit.worker.processes.team_jobs import (
    DEADLINE_SECONDS,
    Awaited,
    AwaitedTimed,
    Plain,
    gate,
    seen,
    task_team,
    thread_team,
)


def test_jobs_run_at_once_in_threads_and_know_which_they_are(threads):
    threads.start(*[Plain(how="wait")] * 3)
    assert (threads.team.busy, threads.team.free) == (3, 5)
    threads.await_seen(3)
    begun = list(seen)
    assert len({thread for *_, thread in begun}) == 3
    for descriptor, running, _ in begun:
        assert str(running) == f"{descriptor} attempt 1/4"
    gate.set()
    assert set(threads.outcomes(3).values()) == {None}
    assert {str(running) for running in seen[3:]} == {str(running) for _, running, _ in begun}
    assert (threads.team.busy, threads.team.free) == (0, 8)


def test_threads_are_used_again(threads):
    for _ in range(20):
        assert threads.run(Plain(how="return"), Awaited(how="leave tasks")) == [None, None]
    assert len(threads.team._threads) == 2
    assert {task.cancelled() for task in seen} == {True}


def test_how_jobs_end_in_threads(threads):
    failed = threads.run(Plain(how="fail"))[0]
    assert isinstance(failed, Failure)
    assert failed.delay_ms == 7000
    assert "ValueError: some reason" in failed.status
    assert isinstance(threads.run(Awaited(how="interrupt"))[0], Interruption)
    assert "SystemExit" in threads.run(Awaited(how="leave"))[0].status


def test_the_claim_table_shows_running_jobs(tasks):
    [batch, _] = tasks.start(AwaitedTimed(how="gate"), Awaited(how="gate"))
    tasks.await_seen(2)
    assert tasks.codec.names[batch.area.kinds[0]] == "AwaitedTimed"
    assert 0 < batch.area.started_ns[0] <= time.monotonic_ns() < batch.area.kill_ns[0]


def test_jobs_run_at_once_as_tasks_and_know_which_they_are(tasks):
    tasks.start(*[Awaited(how="gate")] * 8)
    tasks.await_seen(8)
    for descriptor, running, inherited in list(seen):
        assert str(running) == f"{descriptor} attempt 1/4"
        assert inherited is None, "no job sees the variables of another"
    gate.set()
    assert set(tasks.outcomes(8).values()) == {None}
    assert len({str(running) for running in seen[8:]}) == 8


def test_how_jobs_end_as_tasks(tasks):
    failed, interrupted = tasks.run(Awaited(how="fail later"), Awaited(how="interrupt"))
    assert (isinstance(failed, Failure), isinstance(interrupted, Interruption)) == (True, True)
    assert "ValueError: some reason" in failed.status
    assert "team_jobs.py" in failed.status
    assert "task_runner" not in failed.status
    assert "SystemExit: 3" in tasks.run(Awaited(how="leave"))[0].status


@pytest.mark.parametrize("how", ["leave", "leave in a task", "stop", "cancel itself", "replace the task factory"])
def test_a_job_does_not_end_the_loop_of_the_others(tasks, how):
    tasks.start(Awaited(how="gate"))
    tasks.run(Awaited(how=how))
    gate.set()
    assert tasks.outcomes(1) == {"jobs:s1:p1:1": None}
    assert isinstance(tasks.run(Awaited(how="fail later"))[0], Failure)


def test_a_job_whose_task_is_cancelled_before_its_first_step_begins_anew(tasks):
    tasks.start(Awaited(how="cancel others"))
    tasks.await_seen(1)
    gate.set()
    tasks.start(Awaited(how="gate"))
    assert tasks.outcomes(2) == {"jobs:s1:p1:1": None, "jobs:s1:p1:2": None}
    assert tasks.team.busy == 0


def test_a_job_that_is_cancelled_while_another_one_holds_up_its_start_ends(tasks):
    tasks.start(Awaited(how="block"))
    tasks.await_seen(1)
    [waiting] = tasks.start(Awaited(how="gate"))
    waiting.mark_cancelled(0)
    time.sleep(2 * CHECK_SECONDS)  # so long that the next look at cancelled jobs is due when the loop goes on
    gate.set()
    assert tasks.outcomes(2)["jobs:s1:p1:2"].ending == CANCELLED
    assert tasks.team.busy == 0


def test_a_job_that_is_cancelled_while_it_asks_for_that_ends_alone(tasks, monkeypatch):
    """It has something to undo, so it asks a server before it runs, which may take a while."""

    async def ask(context):
        seen.append(context)
        await asyncio.sleep(DEADLINE_SECONDS)

    monkeypatch.setattr(task_runner, "ask_if_cancelled_awaited", ask)
    body = encode_body(Awaited(how="gate"), BodyMetadata(steps={"one": 1}))
    batch = batch_of("jobs:s1:p1:7", bodies=[body])
    tasks.team.start(batch)
    tasks.await_seen(1)
    batch.mark_cancelled(0)
    assert tasks.outcomes(1)["jobs:s1:p1:7"].ending == CANCELLED


def test_a_cancelled_job_that_undoes_its_sagas_goes_on_when_another_one_is_cancelled(tasks):
    mark = SagaMark(["reserve"], "it was cancelled", is_cancelled=True)
    undoing = batch_of("jobs:s1:p1:7", bodies=[encode_body(Awaited(how="gate"), BodyMetadata(saga=mark))])
    tasks.team.start(undoing)
    [other] = tasks.start(Awaited(how="sleep"))
    tasks.await_seen(1)
    other.mark_cancelled(0)
    assert list(tasks.outcomes(1)) == other.descriptors
    gate.set()
    assert list(tasks.outcomes(1)) == undoing.descriptors
    assert str(seen[-1]).startswith("jobs:s1:p1:7"), "it ran to its end"


def test_what_a_job_leaves_running_ends_with_it_and_nothing_else_does(tasks):
    tasks.start(Awaited(how="gate"))
    tasks.await_seen(1)
    assert tasks.run(Awaited(how="leave tasks")) == [None]
    left = seen[1:]
    assert [task.cancelled() for task in left] == [True, True]
    gate.set()
    assert tasks.outcomes(1) == {"jobs:s1:p1:1": None}


def test_blocking_calls_that_a_job_leaves_in_all_threads_hold_up_no_call_of_another(tasks):
    assert tasks.run(Awaited(how="leave calls")) == [None]
    assert tasks.run(Awaited(how="call in a thread")) == [None]
    assert seen == [7]
    gate.set()


@pytest.mark.parametrize("how", ["shut the threads down", "shut own threads down"])
def test_a_job_that_shuts_threads_down_leaves_those_of_the_others(tasks, how):
    assert tasks.run(Awaited(how=how)) == [None]
    assert tasks.run(Awaited(how="call in a thread")) == [None]
    assert seen == [7]


def test_a_plain_job_that_comes_to_an_event_loop_is_not_run(tasks):
    [outcome] = tasks.run(Plain(how="wait"))
    assert "BodyInvalid: Plain has a blocking run, which would stop" in outcome.status
    assert seen == []


def test_unreadable_bodies_are_failures(tasks, threads):
    for bench in (tasks, threads):
        bench.team.start(batch_of("jobs:s1:p1:7", bodies=[b"no job"]))
        assert isinstance(bench.outcomes(1)["jobs:s1:p1:7"], Failure)


@pytest.mark.parametrize("make", [thread_team, task_team])
def test_what_goes_wrong_outside_of_jobs_ends_the_process(teams, make, monkeypatch):
    bench = teams(make)
    monkeypatch.setattr(Runner, "_record_start", lambda *_: 1 / 0)
    bench.start(Awaited(how="gate"))
    with pytest.raises(ZeroDivisionError):
        bench.outcomes(1)
    bench.team._busy, bench.team._breakdown = 0, None
