"""Watching and mending queues with the tool: top, tail, bulk retries and deletions, completion."""

import fcntl
import functools
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from pinlater import Client
from pinlater.cli.changes import ChangeTracker
from pinlater.jobs.job import RawJob
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.state import JobState
from tests.support.server import ROOT, wait_for
from tests.support.tool import run_tool

TOOL = [sys.executable, "-m", "pinlater.cli"]
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def environment(server):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
    return kept | {"PINLATER_SERVERS": server.address, "PYTHONPATH": str(ROOT), "TERM": "xterm"}


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        yield client


@pytest.fixture
def tool(server):
    return functools.partial(run_tool, PINLATER_SERVERS=server.address)


def failed(client, queue, *jobs):
    """Let jobs fail for good: each is a body and the status of its attempt; return their descriptors."""
    client.create_queue(queue)
    names = client.enqueue_jobs(queue, [NewJob(body.encode(), attempts=1) for body, _ in jobs])
    statuses = dict(zip(names, (status for _, status in jobs), strict=True))
    taken = client.dequeue_jobs(queue, len(jobs))
    client.ack(queue, failed=[Ack(job.descriptor, job.claim, statuses[job.descriptor]) for job in taken])
    return names


# Many jobs at once


def test_failed_jobs_are_retried_by_their_status_or_body(tool, client):
    jobs = [('{"user": 1}', "refused: SMTP 421"), ('{"user": 42}', "KeyError"), ('{"user": 3}', "refused: SMTP 550")]
    names = failed(client, "chosen", *jobs)
    assert tool("retry-failed", "chosen", "--where", "SMTP 4[0-9][0-9]", "--dry-run")[1] == "1 job would be retried\n"
    assert client.count("chosen", JobState.FAILED) == 3
    assert json.loads(tool("retry-failed", "chosen", "--where", "SMTP 4", "--json")[1]) == {"retried": 1}
    assert tool("retry-failed", "chosen", "--where", '"user": 42')[1] == "1 job retried\n"
    states = [client.lookup(names)[name].state for name in names]
    assert states == [JobState.PENDING, JobState.PENDING, JobState.FAILED]
    assert tool("retry-failed", "chosen", "--where", "no such text")[1] == "0 jobs retried\n"


def test_more_jobs_than_fit_into_one_call(tool, client):
    failed(client, "many", *[(f"{number}", "odd" if number % 2 else "even") for number in range(1300)])
    assert tool("retry-failed", "many", "--where", "odd", "--limit", "5000")[1] == "650 jobs retried\n"
    assert tool("retry-failed", "many", "--limit", "600", "--dry-run")[1] == "600 jobs would be retried\n"
    assert tool("retry-failed", "many", "--limit", "600")[1] == "600 jobs retried\n"
    assert client.count("many", JobState.FAILED) == 50
    assert tool("delete-jobs", "many", "--state", "pending", "--limit", "5000", "--yes")[1] == "1250 jobs deleted\n"


def test_jobs_are_deleted_by_their_status_or_body(tool, client):
    failed(client, "doomed", ("a", "address unknown"), ("b", "busy"), ("address unknown", "c"))
    words = ("delete-jobs", "doomed", "--state", "failed", "--where", "address unknown")
    assert tool(*words, "--dry-run")[1] == "2 jobs would be deleted\n"
    assert tool(*words)[0] == 2  # nobody is there to ask
    assert tool(*words, "--limit", "1", "--yes")[1] == "1 job deleted\n"
    assert tool(*words, "--yes")[1] == "1 job deleted\n"
    assert client.count("doomed", JobState.FAILED) == 1
    assert tool("delete-jobs", "doomed", "--state", "failed", "--dry-run")[1] == "1 job would be deleted\n"


def test_pending_jobs_that_are_not_due_are_found_too(tool, client):
    client.create_queue("later")
    client.enqueue_jobs("later", [NewJob(b"now"), NewJob(b"soon", run_after_ms=int(time.time() * 1000) + 10**7)])
    assert tool("delete-jobs", "later", "--state", "pending", "--where", "soon|now", "--yes")[1] == "2 jobs deleted\n"


def test_a_pattern_that_is_none_is_refused(tool):
    status, _, error = tool("retry-failed", "chosen", "--where", "(")
    assert status == 2
    assert "is not a regular expression" in error


def test_a_bar_shows_how_far_it_is(client, environment):
    failed(client, "barred", *[("x", "y")] * 600)
    with Screen([*TOOL, "retry-failed", "barred", "--where", "y"], environment) as screen:
        assert wait_for(lambda: "600 jobs retried" in screen.text())
        assert "reading barred" in screen.text()
        assert "600/600" in screen.text()
        assert screen.status() == 0


# Completion


def complete(environment, line, position):
    variables = {"_PINLATER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(position)}
    done = subprocess.run(TOOL, capture_output=True, text=True, env=environment | variables, timeout=50, check=False)
    return {item.partition(",")[2] for item in done.stdout.splitlines() if item}


def test_names_of_queues_and_states_are_completed(client, environment, server):
    client.create_queue("emails")
    client.create_queue("emergencies")
    client.create_queue("reports")
    assert complete(environment, "pinlater count em", 2) == {"emails", "emergencies"}
    assert complete(environment, "pinlater pause reports em", 3) == {"emails", "emergencies"}
    elsewhere = environment | {"PINLATER_SERVERS": "127.0.0.1:1"}
    assert complete(elsewhere, "pinlater count em", 2) == set()
    assert complete(elsewhere, f"pinlater count --server {server.address} rep", 4) == {"reports"}
    assert complete(environment, "pinlater scan emails --state s", 4) == {"succeeded"}
    assert "top" in complete(environment, "pinlater t", 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_for_shells(tool, shell):
    status, script, _ = tool("completion", shell)
    assert status == 0
    assert "_PINLATER_COMPLETE" in script


# Top


class Screen:
    """A program in a terminal."""

    def __init__(self, command, environment, rows=24, columns=100):
        self._shown = b""
        self._terminal, inside = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self._terminal)
        self._process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True
        )
        self._inside = inside

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(20)
        os.close(self._terminal)
        os.close(self._inside)

    def resize(self, rows, columns):
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def text(self):
        while select.select([self._terminal], [], [], 0)[0]:
            self._shown += os.read(self._terminal, 100_000)
        return self._shown.decode(errors="replace")

    def frame(self):
        """Return what was shown last, as lines."""
        lines = self.text().split("\x1b[H")[-1].split("\r\n")
        return [re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", line).rstrip("\r") for line in lines]

    def press(self, keys):
        os.write(self._terminal, keys)

    def signal(self, number):
        self._process.send_signal(number)

    def is_stopped(self):
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def status(self):
        wait_for(lambda: self.text() is not None and self._process.poll() is not None)
        return self._process.returncode

    def modes_now(self):
        return termios.tcgetattr(self._terminal)


def test_once(tool, client):
    client.create_queue("topped")
    client.enqueue_jobs("topped", [NewJob(b"x")] * 5)
    client.dequeue_jobs("topped", 2)
    client.change_queue("topped", jobs_per_second=7.0)
    [look] = json.loads(tool("top", "topped", "--once", "--json")[1])
    assert (look["due"], look["running"], look["succeeded"]) == (3, 2, 0)
    assert look["wait_seconds"] >= 0
    assert look["settings"]["jobs_per_second"] == 7
    header, row = tool("top", "topped", "--once")[1].splitlines()
    assert header.split()[:4] == ["QUEUE", "DUE", "SCHEDULED", "RETRYING"]
    assert row.split()[:5] == ["topped", "3", "0", "0", "2"]
    assert row.endswith("7/s")
    assert tool("top", "absent", "--once")[0] == 1
    assert len(json.loads(tool("top", "topped", "--json")[1])) == 1
    assert tool("top")[0] == 2  # no terminal


def test_the_longest_wait_counts_whatever_the_priority_and_also_of_a_paused_queue(tool, client):
    client.create_queue("waiting")
    now_ms = int(time.time() * 1000)
    client.enqueue_jobs("waiting", [NewJob(b"new", 1), NewJob(b"old", 2, now_ms - 5_400_000)])
    for is_paused in (False, True):
        client.change_queue("waiting", paused=is_paused)
        [look] = json.loads(tool("top", "waiting", "--once", "--json")[1])
        assert 5400 <= look["wait_seconds"] < 5500


def test_live_it_follows_the_counts_and_the_window_and_ends_on_q(client, environment):
    client.create_queue("live")
    client.create_queue("other_live")
    with Screen([*TOOL, "top", "live", "other_live", "--interval", "0.2"], environment, columns=120) as screen:
        assert wait_for(lambda: any(line.startswith("live ") for line in screen.frame()))
        client.enqueue_jobs("live", [NewJob(b"x")] * 3)
        wait_for(lambda: any(line.split()[:2] == ["live", "3"] for line in screen.frame()))
        job, *_ = client.dequeue_jobs("live", 1)
        client.ack("live", [Ack(job.descriptor, job.claim)])
        wait_for(lambda: any(line.split()[:7] == ["live", "2", "0", "0", "0", "0", "1"] for line in screen.frame()))
        screen.press(b"\x1b[D" * 2 + b"/other\r")
        wait_for(lambda: [line.split()[0] for line in screen.frame()[3:4]] == ["other_live"])
        assert "1 of 2 queues" in screen.frame()[0]
        screen.press(b"\x1b")
        wait_for(lambda: "2 queues" in screen.frame()[0])
        screen.resize(3, 20)
        screen.signal(signal.SIGWINCH)
        wait_for(lambda: len(frame := screen.frame()) <= 3 and max(map(len, frame)) <= 20, what=screen.frame)
        screen.press(b"q")
        assert screen.status() == 0
        assert ENTER in screen.text()
        assert screen.text().rstrip().endswith(LEAVE)
        assert screen.modes_now() == screen.modes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_live_it_ends_on_a_signal_and_leaves_the_terminal_as_it_was(client, environment, number):
    with Screen([*TOOL, "top"], environment) as screen:
        wait_for(lambda: "QUEUE" in screen.text())
        screen.signal(number)
        assert screen.status() == 0
        assert screen.modes_now() == screen.modes


def test_live_it_gives_the_terminal_back_while_it_is_stopped_and_takes_it_again(client, environment):
    with Screen([*TOOL, "top"], environment) as screen:
        wait_for(lambda: "QUEUE" in screen.text())
        screen.signal(signal.SIGTSTP)
        wait_for(screen.is_stopped)
        assert screen.text().rstrip().endswith(LEAVE)
        assert screen.modes_now() == screen.modes
        screen.signal(signal.SIGCONT)
        wait_for(lambda: screen.text().rpartition(ENTER)[0].count(LEAVE) == 1 and "QUEUE" in screen.frame()[2])
        assert screen.modes_now() != screen.modes
        screen.press(b"q")
        assert screen.status() == 0
        assert screen.modes_now() == screen.modes


def test_a_terminal_that_does_not_know_its_size_is_taken_for_an_ordinary_one(client, environment):
    client.create_queue("sizeless")
    with Screen([*TOOL, "top", "sizeless"], environment, rows=0, columns=0) as screen:
        wait_for(lambda: any(line.startswith("sizeless ") for line in screen.frame()))
        screen.press(b"q")
        assert screen.status() == 0


def test_live_it_says_that_the_server_is_away_and_ends_all_the_same(environment):
    away = environment | {"PINLATER_SERVERS": "127.0.0.1:1"}
    with Screen([*TOOL, "top", "--timeout", "1"], away) as screen:
        wait_for(lambda: "connection refused" in screen.text())
        screen.press(b"q")
        assert screen.status() == 0


# Tail


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
