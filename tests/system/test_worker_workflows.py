"""Workflows in real workers, killed at every place there is: each step that was finished has run once."""

from collections import Counter

import pytest

from pinlater import JobState
from tests.system.worker_program import add_jobs, await_state, job_module, put, ran, wait_for

MAILING = job_module("""
import asyncio, contextlib, os
from pinlater import Constant, Job


class Mailing(Job, queue="steps", backoff=Constant(0.05)):
    name: str

    async def run(self, context):
        room = asyncio.Semaphore(4)

        async def mail(number):
            async with room:
                await context.step("mail", self.mail, context, number)

        write(f"{self.name} begin")
        if self.name == "gather":
            await asyncio.gather(*map(mail, range(20)), return_exceptions=True)
        elif self.name == "suppress":
            for number in range(20):
                with contextlib.suppress(BaseException):
                    await mail(number)
        else:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for number in range(20):
                        tasks.create_task(mail(number))
            finally:
                return

    async def mail(self, context, number):
        while number >= 6 and not (context.is_draining or os.path.exists("drained")):
            await asyncio.sleep(0.01)
        write(f"{self.name} mail {number}")
""")

PLACES = [f"{when} {number}" for number in (1, 2, 3) for when in ("before", "in")] + ["after 3"]


@pytest.fixture
def worker(start, folder):
    add_jobs(folder, "flows")
    return start("--processes", 4, "--lease", 40, modules=("flows",))


def lines_of(folder, name):
    return [line.removeprefix(f"{name} ") for line in ran(folder) if line.startswith(f"{name} ")]


def expect_flow(client, folder, name, job, kills):
    found = await_state(client, job, JobState.SUCCEEDED, 60)
    assert found.attempts_remaining == 3 - len(kills), found
    cut_off = [place.split()[1] for place in kills if place.startswith("in ")]
    begins = Counter([f"begin {number}" for number in (1, 2, 3)] + [f"begin {number}" for number in cut_off])
    ends = Counter(f"end {number}" for number in (1, 2, 3))
    assert Counter(lines_of(folder, name)) == begins + ends + Counter(["result 6"])


@pytest.mark.parametrize("kind", ["Flow", "FlowLater"])
def test_a_workflow_ends_wherever_it_was_killed(client, folder, worker, kind):
    flows = {f"{kind} at {place}": [place] for place in PLACES}
    flows[f"{kind} twice"] = ["in 2", "after 3"]
    jobs = {name: put(client, kind, "steps", name=name, kills=kills) for name, kills in flows.items()}
    for name, kills in flows.items():
        expect_flow(client, folder, name, jobs[name], kills)
    killed = Counter(line for line in ran(folder) if line.startswith("killed"))
    assert killed == Counter(f"killed {place}" for kills in flows.values() for place in kills)
    assert worker.stop() == 0


IN_TRIPS = ["never", "book flight", "book hotel", "pay 1", "pay 2", "pay 3", "undo book hotel", "undo book flight"]


def test_a_saga_is_undone_wherever_it_was_killed(client, folder, worker):
    trips = {f"{kind} {place}": (kind, place) for kind in ("Trip", "TripLater") for place in IN_TRIPS}
    jobs = {name: put(client, kind, "steps", name=name, kill=place) for name, (kind, place) in trips.items()}
    for name, job in jobs.items():
        found = await_state(client, job, JobState.FAILED, 60)
        assert lines_of(folder, name) == ["book flight", "book hotel", "undo book hotel", "undo book flight"], name
        assert "SagaUndone: the job gave up, and its sagas are undone" in found.status
    poison = put(client, "Trip", "steps", name="poison", kill="pay always")
    assert "poison: given up for it" in await_state(client, poison, JobState.FAILED, 60).status
    assert lines_of(folder, "poison") == ["book flight", "book hotel", "undo book hotel", "undo book flight"]
    killed = {path.name.removesuffix(" was killed") for path in folder.glob("* was killed")}
    assert killed == {name for name, (_, place) in trips.items() if place != "never"}


def test_a_loop_repeats_only_the_item_that_was_cut_off(client, folder, worker):
    jobs = {kill: put(client, "Walk", "counts", name=f"walk{kill}", kill=kill) for kill in range(5)}
    for kill, job in jobs.items():
        assert await_state(client, job, JobState.SUCCEEDED, 60).attempts_remaining == 2
        expected = [str(item) for item in (*range(kill + 1), *range(kill, 5))]
        assert lines_of(folder, f"walk{kill}") == expected


def test_a_loop_repeats_at_most_what_its_heartbeat_left_unsaved(client, folder, worker):
    job = put(client, "Stroll", "counts")
    assert await_state(client, job, JobState.SUCCEEDED, 60).attempts_remaining == 2
    items = [int(item) for item in lines_of(folder, "stroll")]
    assert items[:51] == list(range(51))
    assert items[51:] == list(range(items[51], 60))
    assert 51 - items[51] <= 12  # an item takes 0.02 s at least, and 0.2 s pass between two checkpoints


def test_a_job_sleeps_once_wherever_it_was_killed(client, folder, worker):
    naps = {"calm": [], "killed before": ["before"], "killed after": ["after"], "killed twice": ["before", "after"]}
    jobs = {name: put(client, "Nap", "sleeps", name=name, kills=kills) for name, kills in naps.items()}
    for name, kills in naps.items():
        found = await_state(client, jobs[name], JobState.SUCCEEDED, 60)
        assert found.attempts_remaining == 3 - len(kills)
        assert lines_of(folder, name) == ["run"] * (2 + len(kills)) + ["up"]
    wait_for(lambda: worker.log.count("crash") == 4, what=lambda: worker.log)


@pytest.mark.parametrize("places", [(), ("--threads", 4), ("--concurrency", 4)], ids=["alone", "threads", "tasks"])
def test_no_drain_makes_a_job_a_success_whose_work_is_undone(client, folder, start, places):
    (folder / "mailing.py").write_text(MAILING)
    names = ("gather", "suppress", "finally")
    options = ("--processes", 1 if places else 3, *places)
    worker = start(*options, modules=("mailing",))
    jobs = {name: put(client, "Mailing", "steps", name=name) for name in names}
    wait_for(lambda: all(len(lines_of(folder, name)) >= 7 for name in names), what=lambda: worker.log)
    assert worker.stop() == 0
    for job in jobs.values():
        assert await_state(client, job, JobState.PENDING).attempts_remaining == 3
    (folder / "drained").touch()
    start(*options, modules=("mailing",))
    for name, job in jobs.items():
        assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3
        assert Counter(lines_of(folder, name)) == Counter(["begin"] * 2 + [f"mail {number}" for number in range(20)])
