"""The command tail: every change, in order, and what it has missed."""

import signal
import subprocess
import time

import pytest

from pinlater.cli.changes import ChangeTracker
from pinlater.jobs.job import RawJob
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.state import JobState
from tests.support.server import wait_for
from tests.support.tool import TOOL


def test_tail_tells_of_every_change(client, environment, tmp_path):
    client.create_queue("tailed")
    client.enqueue_jobs("tailed", [NewJob(b"old")])
    out = tmp_path / "out"
    with out.open("w") as file:
        process = subprocess.Popen([*TOOL, "tail", "tailed", "--interval", "0.1"], stdout=file, env=environment)
    try:
        marker = None

        def sees():  # it has begun to look once it tells of a new job
            nonlocal marker
            marker = client.enqueue_jobs("tailed", [NewJob(b"marker", priority=2)])[0]
            time.sleep(0.3)
            return marker in out.read_text()

        wait_for(sees)
        first, second = client.enqueue_jobs("tailed", [NewJob(b"a", attempts=2), NewJob(b"b")])
        wait_for(lambda: f"{second}  b  PENDING" in out.read_text())
        jobs = {job.descriptor: job for job in client.dequeue_jobs("tailed", 3)}
        wait_for(lambda: f"{first}  a  PENDING > IN_PROGRESS" in out.read_text())
        client.ack(
            "tailed",
            [Ack(second, jobs[second].claim)],
            [Ack(first, jobs[first].claim, "no luck", retry_delay=600)],
        )
        wait_for(lambda: f"{first}  a  IN_PROGRESS > RETRYING  1 of 2 left  no luck" in out.read_text())
        wait_for(lambda: f"{second}  b  IN_PROGRESS > SUCCEEDED" in out.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "old  PENDING  " not in out.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_tail_ends_after_its_time(tool, client):
    client.create_queue("quiet")
    assert tool("tail", "quiet", "--for", "0") == (0, "", "")


@pytest.fixture
def changes(client, monkeypatch):
    """What tail finds in an empty queue; counts are asked for each time."""
    monkeypatch.setattr("pinlater.cli.changes._COUNT_SECONDS", 0.0)
    monkeypatch.setattr("pinlater.cli.changes._COUNT_REST", 0)
    client.create_queue("flood")
    found = ChangeTracker(client, ["flood"])
    assert list(found.poll()) == []
    yield found
    client.delete_queue("flood", "open sesame")


def put(client, number):
    for _ in range(0, number, 500):
        client.enqueue_jobs("flood", [NewJob(b"x")] * 500)


def end(client, number):
    for _ in range(0, number, 500):
        jobs = client.dequeue_jobs("flood", 500)
        client.ack("flood", [Ack(job.descriptor, job.claim) for job in jobs])


def test_tail_follows_thousands(client, changes):
    put(client, 3000)
    assert len({change.info.descriptor for change in changes.poll()}) == 3000
    end(client, 1000)  # those that were there first, deep in the list of what is due
    assert [change.info.state for change in changes.poll()] == [JobState.SUCCEEDED] * 1000
    put(client, 1000)
    end(client, 1500)
    states = [(change.before, change.info.state) for change in changes.poll()]
    assert states.count((JobState.PENDING, JobState.SUCCEEDED)) == 1500
    assert states.count((None, JobState.PENDING)) == 1000
    assert (list(changes.poll()), changes.unseen) == ([], {})


def test_tail_says_how_many_it_has_missed(client, changes, monkeypatch):
    monkeypatch.setattr("pinlater.cli.changes.MOST_OF_A_STATE", 1000)
    put(client, 4000)
    assert (len(list(changes.poll())), changes.unseen) == (1100, {"flood": 2900})
    assert (list(changes.poll()), changes.unseen) == ([], {})
    end(client, 4000)
    ended = len(list(changes.poll()))
    assert 1100 <= ended < 4000
    assert changes.unseen == {"flood": 4000 - ended}


def test_tail_does_not_tell_of_old_ends_when_others_are_deleted(client, changes):
    put(client, 1000)
    end(client, 1000)
    later = ChangeTracker(client, ["flood"])
    assert list(later.poll()) == []
    names = [info.descriptor for info in client.scan("flood", JobState.SUCCEEDED, limit=300).jobs]
    client.delete_these("flood", names, JobState.SUCCEEDED)
    assert (list(later.poll()), later.unseen) == ([], {})


def test_tail_tells_on_stderr_of_what_it_could_not_follow(client, environment, tmp_path):
    client.create_queue("torrent")
    out = tmp_path / "out"
    with out.open("w") as file:
        words = ["tail", "torrent", "--interval", "0.1", "--json"]
        process = subprocess.Popen([*TOOL, *words], stdout=file, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_for(lambda: client.enqueue_jobs("torrent", [NewJob(b"x")]) and out.read_text())
        client.enqueue_many((RawJob(body=b"x") for _ in range(20_000)), queue="torrent", attempts=1)
        assert "torrent: too many changes to follow; " in process.stderr.readline()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
