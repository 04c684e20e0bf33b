"""Workflows that call jobs and wait for events in real workers, killed at every place where that makes a difference.

``PINLATER_TEST_KILLS=50 PINLATER_TEST_KILLS_ON=sqlite,redis,mysql`` runs the proof with as many kills at each place.
"""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from pinlater import Client, JobState
from pinlater.jobs.events import event_message
from tests.support.server import ServerProcess
from tests.support.stores import STORES
from tests.system.worker_program import Worker, add_jobs, info, put, ran, wait_for

ROUNDS = int(os.environ.get("PINLATER_TEST_KILLS", "1"))
PROCESSES = 2 if ROUNDS == 1 else 8
ON = os.environ.get("PINLATER_TEST_KILLS_ON", "sqlite").split(",")

pytestmark = pytest.mark.timeout(120 + 60 * ROUNDS)


IN_TALK = [
    f"{now}: {when} {what}"
    for now, calls in {
        "call": ("read_messages", "enqueue", "save", "release"),
        "wait": ("read_messages",),
        "timeout": ("save", "release"),
        "nap": ("save", "release"),
        "end": ("succeeded",),
    }.items()
    for what in calls
    for when in ("before", "after")
]
IN_JOURNEY = [
    *("saga: after save", "wait: before release", "wait: after release"),
    *("undo: in it", "undo: before save", "undo: after save", "undo: before failed", "undo: after failed"),
]
IN_TRIP = ["call in saga: after enqueue", "call in saga: after release", "undo: before save", "undo: after save"]


class Place(NamedTuple):
    client: Client
    folder: Path
    worker: Worker
    address: str


@pytest.fixture(scope="module", params=ON)
def place(request, tmp_path_factory):
    """A server, a client, a worker, and its folder."""
    folder = tmp_path_factory.mktemp(request.param)
    add_jobs(folder, "talking")
    shards = {} if request.param == "sqlite" else {"shards": 2}
    with ServerProcess(folder / "server", **STORES[request.param].settings(folder, **shards)) as server:
        arguments = "--server", server.address, "--processes", PROCESSES, "--queue", "steps,touch"
        with Worker(folder, "talking", *arguments) as worker, Client(server.address) as client:
            for queue in ("touch", "steps", "teams"):
                client.create_queue(queue)
            yield Place(client, folder, worker, server.address)


def start(client, kind, name, queue="steps", **fields):
    descriptor = put(client, kind, queue, name=name, **fields)
    assert client.send_message(descriptor, event_message("word", "yes", name))
    return descriptor


def result(client, descriptor):
    found = client.lookup([descriptor], include_result=True)[descriptor]
    return found.state, found.result


def finished(client, descriptors):
    return all(job.state.is_final for job in client.lookup(descriptors).values())


def await_all(client, descriptors, worker):
    wait_for(lambda: finished(client, descriptors), 60 * ROUNDS, lambda: worker.log[-5000:])


def lines_of(folder, name):
    return Counter(line.removeprefix(f"{name} ") for line in ran(folder) if line.startswith(f"{name} "))


def test_wherever_it_is_killed_each_child_runs_once_and_each_event_comes_once(place):
    client, folder, worker, _ = place
    talks = {f"talk-{at}-{i}": where for i in range(ROUNDS) for at, where in enumerate(IN_TALK)}
    started = {name: start(client, "Talk", name, kill=where) for name, where in talks.items()}
    await_all(client, started.values(), worker)
    for name, descriptor in started.items():
        where = talks[name]
        expected = {f"child {number}": 1 for number in (1, 2, 3)} | {f"killed at {where}": 1}
        seen = lines_of(folder, name)
        assert 1 <= seen.pop("at its end") <= 2, where
        assert seen == expected, where
        assert result(client, descriptor) == (JobState.SUCCEEDED, b'"[10, 20, 30] yes nothing came"'), where


def test_wherever_it_is_killed_what_was_done_is_undone_once(place):
    client, folder, worker, _ = place
    trips = {f"trip-{at}-{i}": where for i in range(ROUNDS) for at, where in enumerate(IN_TRIP)}
    started = {name: start(client, "Trip", name, kill=where) for name, where in trips.items()}
    await_all(client, started.values(), worker)
    for name, descriptor in started.items():
        where = trips[name]
        seen = lines_of(folder, name)
        undone = seen.pop("undone")
        assert undone == (2 if where == "undo: before save" else 1), where  # killed before that was saved
        assert seen == {"booked": 1, "child 1": 1, f"killed at {where}": 1}, where
        assert info(client, descriptor).state is JobState.FAILED, where


def test_a_job_that_continues_as_new_keeps_nothing_of_the_jobs_that_earlier_runs_have_called(place):
    client, folder, worker, _ = place
    places = [f"run 1: {when} release" for when in ("before", "after")]
    started = {where: start(client, "Endless", f"endless {where}", kill=where) for where in places}
    await_all(client, started.values(), worker)
    for where, descriptor in started.items():
        assert lines_of(folder, f"endless {where}") == {
            **{f"child {run}": 4 for run in range(4)},
            f"killed at {where}": 1,
        }
        left = {
            (run, name): len(client.read_messages(descriptor, f"call/{run}/{name}"))
            for run in range(4)
            for name in ("one", "more")
        }
        assert {run for (run, _), number in left.items() if number} == {3}
        assert (left[3, "one"], left[3, "more"]) == (1, 3)


@pytest.mark.parametrize("lingers", [False, True], ids=["waiting", "running"])
def test_wherever_a_cancelled_job_is_killed_what_was_done_is_undone_once(place, lingers):
    client, folder, worker, _ = place
    places = [where for where in IN_JOURNEY if not (lingers and where.startswith("wait"))]
    kind = "running" if lingers else "waiting"
    journeys = {f"journey-{kind}-{at}-{i}": where for i in range(ROUNDS) for at, where in enumerate(places)}
    started = {}
    for name, where in journeys.items():
        started[name] = descriptor = put(client, "Journey", "steps", name=name, kill=where, lingers=lingers)
        is_there = JobState.IN_PROGRESS if lingers else JobState.PENDING
        wait_for(lambda name=name: lines_of(folder, name)["waits"] > 0, 60, lambda: worker.log[-5000:])
        wait_for(lambda it=descriptor, state=is_there: info(client, it).state is state, 60, lambda: worker.log[-5000:])
        assert client.cancel_these("steps", [descriptor]) == 1
    await_all(client, started.values(), worker)
    for name, descriptor in started.items():
        where = journeys[name]
        seen = lines_of(folder, name)
        assert seen.pop("waits") >= 1
        assert seen.pop("paid back") == (2 if where == "undo: before save" else 1), where
        assert seen == {"booked": 1, "paid": 1, "undone": 1, f"killed at {where}": 1}, where
        found = info(client, descriptor)
        assert (found.state, found.is_cancelled) == (JobState.FAILED, True), where


@pytest.mark.parametrize(("kind", "option"), [("Talk", "--threads"), ("TalkLater", "--concurrency")])
def test_jobs_beside_each_other_can_call_and_wait(place, kind, option):
    client, folder, _, address = place
    arguments = ("talking", "--server", address, "--processes", 1, "--queue", "teams", option, 3)
    with Worker(folder, *arguments) as worker:
        started = {f"{kind} {number}": start(client, kind, f"{kind} {number}", "teams") for number in range(4)}
        await_all(client, started.values(), worker)
    for name, descriptor in started.items():
        assert result(client, descriptor) == (JobState.SUCCEEDED, b'"[10, 20, 30] yes nothing came"')
        seen = lines_of(folder, name)
        assert {number: seen[f"child {number}"] for number in (1, 2, 3)} == {1: 1, 2: 1, 3: 1}


def test_a_job_that_is_cancelled_calls_nobody(place):
    client, folder, worker, address = place
    descriptor = put(client, "Regret", "steps", name="regret", server=address)
    await_all(client, [descriptor], worker)
    found = info(client, descriptor)
    assert (found.state, found.is_cancelled) == (JobState.FAILED, True)
    assert lines_of(folder, "regret") == {"JobCancelled": 1}
