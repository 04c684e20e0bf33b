"""The pytest fixture: a real server in this process, moved through time."""

import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from pinlater import Client, Job, JobState, Retry
from pinlater.client import NewJob
from pinlater.errors import ClaimLost, ServerUnavailable
from pinlater.jobs.body_codec import encode_body
from pinlater.testing import LocalServer, plugin, run_inline
from tests.unit.testing.jobs import Count, Lines, Once, Polite, Report

ROOT = Path(__file__).parents[2]
DAY = 24 * 3600.0

pinlater_server = plugin.pinlater_server


@pytest.fixture
def tls_of_the_environment(monkeypatch):
    monkeypatch.setenv("PINLATER_TLS_CA", "/nowhere/ca.pem")


def test_files_for_tls_in_the_environment_do_not_disturb_it(tls_of_the_environment, pinlater_server):
    pinlater_server.client(Count).enqueue(Count(end=1))
    with Client() as client:
        assert client.queue_names() == {"counts"}
    assert endings(pinlater_server.run_worker(Count)) == [(1, "succeeded")]


@pytest.fixture
def client(pinlater_server):
    return pinlater_server.client(Count, Lines, Once, Polite, Report)


def moment_ms(server, seconds):
    return int((server.now.timestamp() + seconds) * 1000)


def endings(outcomes):
    return [(outcome.attempt, str(outcome.ending)) for outcome in outcomes]


def test_jobs_are_run_by_real_calls(pinlater_server, client):
    handles = [client.enqueue(Count(end=n)) for n in range(3)]
    assert handles[0].status().state is JobState.PENDING
    outcomes = pinlater_server.run_worker(Count)
    assert [outcome.job.cursor for outcome in outcomes] == [0, 1, 2]
    assert [outcome.descriptor for outcome in outcomes] == [handle.descriptor for handle in handles]
    assert {handle.status().state for handle in handles} == {JobState.SUCCEEDED}
    assert pinlater_server.run_worker(Count) == []


def test_one_job_only(pinlater_server, client):
    client.enqueue_many([Count(end=1), Count(end=2)])
    assert len(pinlater_server.run_worker(Count, until_empty=False)) == 1
    assert client.count("counts", JobState.PENDING) == 1


def test_all_queues_of_the_classes_or_the_given_ones(pinlater_server, client):
    client.create_queue("elsewhere")
    client.enqueue(Count(end=1))
    client.enqueue(Polite(word="x"))
    client.enqueue(Count(end=1), queue="elsewhere")
    assert len(pinlater_server.run_worker(Count, Polite)) == 2
    assert len(pinlater_server.run_worker(Count, queues=["elsewhere", "counts"])) == 1


def test_a_worker_needs_a_class(pinlater_server):
    with pytest.raises(ValueError, match=r"classes of the jobs to run: run_worker\(SendReminder\)"):
        pinlater_server.run_worker()


def test_a_client_of_the_code_under_test_finds_the_server(pinlater_server, client):
    with Client() as another:
        another.enqueue(Count(end=1))
    assert [outcome.ending for outcome in pinlater_server.run_worker(Count)] == ["succeeded"]


def test_delayed_jobs_fall_due(pinlater_server, client):
    client.enqueue(Count(end=1), delay=DAY)
    assert pinlater_server.run_worker(Count) == []
    pinlater_server.advance(DAY - 60)
    assert pinlater_server.run_worker(Count) == []
    pinlater_server.advance(60)
    assert len(pinlater_server.run_worker(Count)) == 1


def test_delays_count_from_the_moved_clock(pinlater_server, client):
    pinlater_server.advance(DAY)
    client.enqueue(Count(end=1), delay=60)
    client.enqueue_many([Count(end=1)], delay=60)
    assert pinlater_server.run_worker(Count) == []
    pinlater_server.advance(60)
    assert len(pinlater_server.run_worker(Count)) == 2


def test_moments_are_those_of_the_moved_clock(pinlater_server, client):
    pinlater_server.advance(DAY)
    client.enqueue(Count(end=1), run_at=pinlater_server.now + timedelta(hours=1))
    client.enqueue_jobs("counts", [NewJob(encode_body(Count(end=1)), run_after_ms=moment_ms(pinlater_server, 3600))])
    client.enqueue(AtDawn(dawn=pinlater_server.now.timestamp() + 3600))
    client.enqueue(AtDawn(dawn=pinlater_server.now.timestamp() - 3600))
    assert endings(pinlater_server.run_worker(Count, AtDawn)) == [(1, "interrupted"), (1, "succeeded")]
    pinlater_server.advance(3540)
    assert pinlater_server.run_worker(Count, AtDawn) == []
    pinlater_server.advance(60)
    assert endings(pinlater_server.run_worker(Count, AtDawn)) == [(1, "succeeded")] * 3


class AtDawn(Job, queue="dawns"):
    dawn: float

    def run(self, context):
        context.sleep_until(self.dawn, name="night")


class Sender(Job, queue="senders"):
    def run(self, context):
        context.enqueue(Count(end=1), name="later", delay=60)
        context.call(Count(end=2), delay=60)


def test_delays_in_jobs_count_from_the_moved_clock(pinlater_server, client):
    pinlater_server.advance(DAY)
    client.enqueue(Sender())
    assert endings(pinlater_server.run_worker(Sender, Count)) == [(1, "interrupted")]
    pinlater_server.advance(60)
    assert endings(pinlater_server.run_worker(Sender, Count)) == [(1, "succeeded")] * 3


def test_retries_fall_due_after_their_backoff_and_keep_their_steps(pinlater_server, client):
    handle = client.enqueue(Report())
    assert endings(pinlater_server.run_worker(Report)) == [(1, "failed")]
    assert "the printer is on fire" in handle.status().status
    assert pinlater_server.run_worker(Report) == []
    pinlater_server.advance(6)
    [outcome] = pinlater_server.run_worker(Report)
    assert (outcome.attempt, outcome.ending, outcome.job.log[-1]) == (2, "succeeded", "total 6")


class Nap(Job, queue="naps"):
    def run(self, context):
        context.sleep_for(DAY, name="night")


def test_a_job_that_sleeps_or_waits_can_be_run_now(pinlater_server, client):
    asleep = client.enqueue(Nap())
    [outcome] = pinlater_server.run_worker(Nap)
    assert outcome.runs_again
    assert asleep.run_now()
    assert not asleep.run_now(), "it is due already"
    assert endings(pinlater_server.run_worker(Nap)) == [(1, "succeeded")]
    retried = client.enqueue(Polite(word="retry"))
    pinlater_server.run_worker(Polite)
    assert client.run_now("polite", [retried.descriptor]) == 1
    assert endings(pinlater_server.run_worker(Polite)) == [(2, "failed")]


def test_retry_and_discard(pinlater_server, client):
    retried = client.enqueue(Polite(word="retry"))
    discarded = client.enqueue(Polite(word="discard"))
    first, second = pinlater_server.run_worker(Polite)
    assert (first.retry_delay, type(first.error), first.runs_again) == (30.0, Retry, True)
    assert (second.ending, discarded.status().state) == ("discarded", JobState.FAILED)
    for _ in range(2):
        pinlater_server.advance(31)
        pinlater_server.run_worker(Polite)
    assert retried.status().state is JobState.SUCCEEDED


def test_an_interrupted_job_goes_back_and_on(pinlater_server, client):
    handle = client.enqueue(Once())
    assert endings(pinlater_server.run_worker(Once)) == [(1, "interrupted"), (1, "succeeded")]
    info = handle.status(include_body=True)
    assert (info.body, info.attempts_remaining) == (b'{"job":"Once","was_interrupted":true}', info.attempts_allowed)


@pytest.mark.parametrize(
    "job",
    [Count(end=3), Report(), Once(), *(Polite(word=word) for word in ("hello", "retry", "discard", "fail"))],
    ids=repr,
)
def test_inline_and_the_server_agree(pinlater_server, client, job):
    handle = client.enqueue(job, priority=2)
    real = pinlater_server.run_worker(type(job))
    while real[-1].runs_again:
        pinlater_server.advance(3601)
        real += pinlater_server.run_worker(type(job))
    with run_inline(type(job)) as inline:
        inline_handle = inline.enqueue(job, priority=2)
        assert facts(handle, real) == facts(inline_handle, inline.outcomes)


def facts(handle, outcomes):
    info = handle.status(include_body=True)
    attempts = [(one.attempt, one.attempts_allowed, one.ending, type(one.error), one.job) for one in outcomes]
    return (
        attempts,
        info.state,
        info.attempts_allowed,
        info.attempts_remaining,
        re.sub(rb',?"\$times":{[^}]*}', b"", info.body),  # each has its own clock
        info.status.count("[attempt"),
    )


def test_an_unreadable_body_is_an_outcome(pinlater_server, client):
    client.enqueue(Lines(body=b"no json"), queue="counts")
    [outcome] = pinlater_server.run_worker(Count)
    assert (outcome.job, outcome.ending) == (None, "failed")
    assert "RawJob" in str(outcome.error)


def test_claims_expire_when_time_passes(pinlater_server, client):
    client.enqueue(Count(end=1))
    [claimed] = client.dequeue_jobs("counts", 1, lease=60)
    assert pinlater_server.run_worker(Count) == []
    pinlater_server.advance(61)
    [outcome] = pinlater_server.run_worker(Count)
    assert (outcome.descriptor, outcome.attempt) == (claimed.descriptor, 2)


class Lost(Job, queue="lost"):
    how: str

    def run(self, context):
        if context.attempt == 1:
            lose[self.how](context)
            context.checkpoint(flush=True)


lose = {}


@pytest.mark.parametrize("how", ["expired", "deleted"])
def test_a_job_that_lost_its_claim_is_told(pinlater_server, monkeypatch, how):
    client = pinlater_server.client(Lost)
    monkeypatch.setitem(lose, "expired", lambda _: pinlater_server.advance(DAY))
    running = JobState.IN_PROGRESS
    monkeypatch.setitem(lose, "deleted", lambda context: client.delete_these("lost", [context.descriptor], running))
    client.enqueue(Lost(how=how))
    outcomes = pinlater_server.run_worker(Lost, until_empty=False)
    assert endings(outcomes) == [(1, "lost")]
    assert isinstance(outcomes[0].error, ClaimLost)
    pinlater_server.advance(DAY)
    assert endings(pinlater_server.run_worker(Lost)) == ([(2, "succeeded")] if how == "expired" else [])


def test_finished_jobs_are_collected_when_time_passes(pinlater_server, client):
    handle = client.enqueue(Count(end=1))
    pinlater_server.run_worker(Count)
    pinlater_server.advance(DAY + 60)
    with pytest.raises(LookupError):
        handle.status()


def test_a_waiting_dequeue_is_answered_when_its_job_falls_due(pinlater_server, client):
    client.enqueue(Count(end=1), delay=DAY)
    found = []
    waiting = threading.Thread(target=lambda: found.extend(client.dequeue_jobs("counts", 1, wait=30)))
    waiting.start()
    time.sleep(0.2)  # let it wait; were it late, it would find the job all the same
    pinlater_server.advance(DAY)
    waiting.join(20)
    assert len(found) == 1


def test_time_goes_on_by_seconds_and_never_back(pinlater_server):
    with pytest.raises(TypeError, match=r"write a number of seconds, such as 24 \* 3600"):
        pinlater_server.advance(timedelta(days=1))
    with pytest.raises(ValueError, match="never goes back"):
        pinlater_server.advance(-1)


def test_a_job_that_is_interrupted_for_ever_is_noticed(pinlater_server, client):
    class Forever(Once):
        def run(self, context):
            self.was_interrupted = False
            super().run(context)

    pinlater_server.client(Forever).enqueue(Forever())
    with pytest.raises(AssertionError, match="10 attempts"):
        pinlater_server.run_worker(Forever, most_runs=10)


def test_without_pytest(tmp_path):
    before = threading.active_count()
    with LocalServer(tmp_path) as server:
        client = server.client(Count)
        client.enqueue(Count(end=1))
        assert len(server.run_worker(Count)) == 1
        address = server.address
    assert threading.active_count() == before
    with Client(address, retries=0) as client, pytest.raises(ServerUnavailable):
        client.queue_names()
    with LocalServer(str(tmp_path)) as server:  # what it stored is there; a path may be a text
        assert server.client().count("counts", JobState.SUCCEEDED) == 1


def test_the_plugin_is_announced_to_pytest():
    with (ROOT / "pyproject.toml").open("rb") as file:
        announced = tomllib.load(file)["project"]["entry-points"]["pytest11"]
    assert {name: import_module(module) for name, module in announced.items()} == {"pinlater": plugin}


def test_a_test_suite_without_jobs_does_not_pay_for_the_plugin():
    heavy = {"thriftpy2", "pinlater.client", "pinlater.server", "pinlater.worker", "asyncio", "sqlite3"}
    code = f"""
import sys, pytest
before = set(sys.modules)
import pinlater.testing.plugin
sys.exit(str(sorted((set(sys.modules) - before) & {heavy!r})) if (set(sys.modules) - before) & {heavy!r} else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr


def test_pytest_finds_it_where_pinlater_is_installed(tmp_path):
    installed = tmp_path / "pinlater-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pinlater\nVersion: 0\n")
    (installed / "entry_points.txt").write_text("[pytest11]\npinlater = pinlater.testing.plugin\n")
    (tmp_path / "test_greeting.py").write_text(
        "from pinlater import Job\n"
        "class Greet(Job):\n"
        "    def run(self, context): pass\n"
        "def test_it(pinlater_server):\n"
        "    pinlater_server.client(Greet).enqueue(Greet())\n"
        "    assert [str(o.ending) for o in pinlater_server.run_worker(Greet)] == ['succeeded']\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    command += ["-W", "ignore:Binding:DeprecationWarning"]  # of Python 3.12.0 to 3.12.3, see pyproject.toml
    path = os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "supervisor")])
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
