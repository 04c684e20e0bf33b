"""A queue moves from one real server to another, also when the program that moves it dies on the way."""

import json
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from pinlater import Client, JobState
from pinlater.client import Ack, Checkpoint, JobKey, NewJob
from pinlater.client.migration import Migration, SourceKeepsJobs
from pinlater.client.moving import Move
from pinlater.jobs.outside_steps import StepResults
from pinlater.jobs.waiting import ENDLESS_MS
from pinlater.model.messages import Message, MessageWait, Parent
from tests.support.server import ROOT, ServerProcess

BATCH = b'{"job":"pinlater.batch","size":2}'


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    both = [ServerProcess(tmp_path_factory.mktemp(name)) for name in ("old", "new")]
    yield both
    for server in both:
        server.stop()


@pytest.fixture
def source(servers):
    with Client(servers[0].address) as client:
        client.create_queue("pins")
        yield client
        client.delete_queue("pins", "open sesame")


@pytest.fixture
def target(servers):
    with Client(servers[1].address) as client:
        yield client
        for name in client.queue_names():
            client.delete_queue(name, "open sesame")


def filled(client, soon=20):
    """One job of each kind, and ``soon`` that are due; return their bodies."""
    client.enqueue_jobs("pins", [NewJob(b"failed", attempts=1), NewJob(b"succeeded")])
    first, second = client.dequeue_jobs("pins", 2)
    client.ack(
        "pins", [Ack(second.descriptor, second.claim, run_ms=61_000)], [Ack(first.descriptor, first.claim, "why")]
    )
    later = int(time.time() * 1000) + 3_600_000
    client.enqueue_jobs(
        "pins", [NewJob(b"later", run_after_ms=later, unique="nightly"), NewJob(b"tried", priority=2, attempts=5)]
    )
    (tried,) = client.dequeue_jobs("pins", 1)
    client.ack("pins", failed=[Ack(tried.descriptor, tried.claim, "first try")])
    client.enqueue_jobs("pins", [NewJob(b"due %d" % number) for number in range(soon)])
    return {"later": later}


def counts(client, queue="pins"):
    """Due, scheduled, running, succeeded, failed."""
    kinds = [(JobState.PENDING, False), (JobState.PENDING, True), *((state, False) for state in list(JobState)[1:])]
    return tuple(client.count(queue, state, future=future) for state, future in kinds)


def command(servers, *options):
    words = ["migrate-queue", "pins", "--server", servers[0].address, "--to", servers[1].address, *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])}
    return {"args": [sys.executable, "-m", "pinlater.cli", *words], "env": environment, "text": True}


def test_a_queue_moves_with_everything(servers, source, target):
    times = filled(source)
    done = subprocess.run(**command(servers, "--json"), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"moved": {"due": 21, "scheduled": 1, "failed": 1, "succeeded": 0}}
    assert counts(source) == (0, 0, 0, 22, 0)
    assert counts(target) == (21, 1, 0, 0, 1)
    (later,) = target.scan("pins", JobState.PENDING, future=True).jobs
    assert (later.run_after_ms, later.unique) == (times["later"], "nightly")
    (failed,) = target.scan("pins", JobState.FAILED).jobs
    assert failed.status == "why"
    jobs = target.dequeue_jobs("pins", 100)
    assert [job.body for job in jobs] == [b"due %d" % number for number in range(20)] + [b"tried"]
    assert (jobs[-1].attempts_allowed, jobs[-1].attempts_remaining) == (5, 4)
    assert target.lookup([jobs[-1].descriptor])[jobs[-1].descriptor].status == "first try"


def test_a_copy_leaves_the_source_alone(servers, source, target):
    filled(source)
    source.dequeue_jobs("pins", 2, lease=3600)
    before = counts(source)
    done = subprocess.run(
        **command(servers, "--copy", "--succeeded", "--new-name", "copied"), capture_output=True, timeout=60, check=True
    )
    assert done.stdout.startswith("24 jobs copied")
    assert counts(source) == before == (19, 1, 2, 1, 1)
    assert counts(target, "copied") == (21, 1, 0, 1, 1)
    assert [job.run_ms for job in target.scan("copied", JobState.SUCCEEDED).jobs] == [61_000]


@pytest.mark.parametrize("options", [["--succeeded"], ["--copy", "--succeeded"]])
def test_a_queue_is_not_moved_to_itself_whatever_address_its_server_has(servers, source, options):
    filled(source)
    before = counts(source)
    port = servers[0].address.rpartition(":")[2]
    words = command(servers, "--to", f"localhost:{port}", *options)
    done = subprocess.run(**words, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "both servers have one store" in done.stderr
    assert counts(source) == before


def test_a_queue_moves_to_another_name_in_the_same_store(servers, source):
    source.enqueue_jobs("pins", [NewJob(b"x")])
    options = ["--to", servers[0].address, "--new-name", "pins_archive"]
    subprocess.run(**command(servers, *options), capture_output=True, timeout=60, check=True)
    assert counts(source) == (0, 0, 0, 1, 0)
    assert counts(source, "pins_archive") == (1, 0, 0, 0, 0)
    source.delete_queue("pins_archive", "open sesame")


def test_a_queue_that_does_not_exist_is_not_created_at_the_target(servers, target):
    done = subprocess.run(**command(servers), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no queue 'pins'" in done.stderr
    assert target.queue_names() == set()


@pytest.mark.parametrize("options", [[], ["--copy"]])
def test_jobs_that_messages_are_for_or_that_others_wait_for_stay(servers, source, target, options):
    """A copy would wait for ever for what has been, or will be, sent to the original."""
    bodies = b"{}", b'{"$calls":{"part":{"count":1,"batch":1}}}', b'{"$events":{"paid":{"here":1}}}', b"parent", BATCH
    names = source.enqueue_jobs("pins", [NewJob(body, attempts=2) for body in bodies])
    asleep, *others = source.dequeue_jobs("pins", 5)
    waits = [MessageWait("event/paid", 1)]
    source.checkpoint("pins", [Checkpoint(asleep.descriptor, asleep.claim, None, True, ENDLESS_MS, waits_for=waits)])
    source.checkpoint("pins", [Checkpoint(job.descriptor, job.claim, None, True) for job in others])
    names += source.enqueue_jobs("pins", [NewJob(b"child", parent=Parent(names[3], "call/0/part", 0))])
    done = subprocess.run(**command(servers, *options, "--patience", "0"), capture_output=True, timeout=60, check=False)
    assert (done.returncode, "5 jobs stayed at the source" in done.stderr) == (1, True)
    assert [job.body for job in target.dequeue_jobs("pins", 9)] == [b"parent"]
    left = source.lookup(names)
    moved = [] if options else [names[3]]
    assert [name for name in names if left[name].state is not JobState.PENDING] == moved
    assert {left[name].attempts_remaining for name in names[:3]} == {2}
    assert source.read_messages(names[3], "call/0/part") == []


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_jobs_that_stay_are_due_again_soon_whatever_the_clock_of_this_machine_says(
    source, target, monkeypatch, seconds
):
    [name] = source.enqueue_jobs("pins", [NewJob(b'{"$calls":{"part":{"count":1,"batch":1}}}')])
    dequeues, sure_ms, clock = [source.dequeue_jobs] * 3, time.time() * 1000, time.time

    def dequeue(*arguments, **options):
        return dequeues.pop()(*arguments, **options)

    with monkeypatch.context() as wrong:
        wrong.setattr("time.time", lambda: clock() + seconds)
        wrong.setattr(source, "dequeue_jobs", dequeue)
        assert Migration(source, target, "pins", "pins").move(0) == 0
    [job] = source.lookup([name]).values()
    assert 0 < job.run_after_ms - sure_ms <= 90_000


@pytest.mark.parametrize(
    ("setting", "reason"), [({"paused": True}, "is paused"), ({"jobs_per_second": 1}, "has reached its rate limit")]
)
def test_a_queue_that_hands_out_nothing_is_moved_in_part_and_that_is_said(servers, source, target, setting, reason):
    later = int(time.time() * 1000) + 3_600_000
    source.enqueue_jobs("pins", [NewJob(b"later", run_after_ms=later), *[NewJob(b"due")] * 20])
    source.change_queue("pins", **setting)
    done = subprocess.run(**command(servers), capture_output=True, timeout=60, check=False)
    moved = sum(counts(target)[:2])
    assert (done.returncode, moved >= 1) == (1, True)
    assert f"{moved} job" in done.stderr
    assert reason in done.stderr
    assert "lift that (pinlater limit pins --rate 0, or pinlater resume pins)" in done.stderr


def test_running_jobs_end_at_the_source(servers, source, target):
    source.enqueue_jobs("pins", [NewJob(b"x")])
    (held,) = source.dequeue_jobs("pins", 1, lease=3600)
    waits = subprocess.run(**command(servers, "--patience", "0"), capture_output=True, timeout=60, check=False)
    assert (waits.returncode, waits.stdout) == (1, "0 jobs moved\n")
    assert "1 job still running at the source" in waits.stderr
    source.ack("pins", failed=[Ack(held.descriptor, held.claim)])
    assert subprocess.run(**command(servers), capture_output=True, timeout=60, check=False).returncode == 0
    assert counts(target) == (1, 0, 0, 0, 0)


def test_a_mover_that_is_killed_again_and_again_doubles_and_loses_nothing(servers, source, target, monkeypatch):
    monkeypatch.setattr("pinlater.client.migration.LEASE_SECONDS", 1.0)
    bodies = [b"%d" % number for number in range(3000)]
    later = int(time.time() * 1000) + 3_600_000
    source.enqueue_jobs("pins", [NewJob(body, run_after_ms=later if body[-1] % 2 else None) for body in bodies])
    target.create_queue("pins")
    for batches in range(1, 12):
        pid = os.fork()
        if pid == 0:
            die_after(servers, batches)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in {0, -signal.SIGKILL}
    with Client(servers[0].address) as old:
        Migration(old, target, "pins", "pins").move(patience_seconds=20)
    assert sum(counts(source)[:3]) == 0
    found = [
        info.descriptor for future in (False, True) for info in target.scan_all("pins", JobState.PENDING, future=future)
    ]
    there = [
        info.body
        for start in range(0, len(found), 500)
        for info in target.lookup(found[start : start + 500], include_body=True).values()
    ]
    assert sorted(there) == sorted(bodies)


def die_after(servers, batches):
    """Move, and die between the import of a batch and its removal at the source."""
    with Client(servers[0].address) as old, Client(servers[1].address) as new:
        left = [batches]
        removals = {name: getattr(old, name) for name in ("delete_these", "ack")}

        def removal(name):
            def call(*arguments):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return removals[name](*arguments)

            return call

        for name in removals:
            setattr(old, name, removal(name))
        Migration(old, new, "pins", "pins").move(patience_seconds=0)
    os._exit(0)


def test_a_source_that_cannot_delete_chosen_jobs_is_told_apart(source, target):
    filled(source)
    target.create_queue("pins")
    source.delete_these = lambda *_: 0  # as a server of the original would answer
    with pytest.raises(SourceKeepsJobs, match="copy the queue instead"):
        Migration(source, target, "pins", "pins").move(patience_seconds=0)
    assert counts(source)[:2] == (21, 1)


def test_queues_of_two_stores_move_into_one(servers, source, target, tmp_path):
    with ServerProcess(tmp_path) as other_server, Client(other_server.address) as other:
        other.create_queue("pins")
        target.create_queue("pins")
        # The jobs of both have the same addresses: ids begin anew in each store.
        names = source.enqueue_jobs("pins", [NewJob(b"one")] * 5)
        missing = number_of(names[0]) - 1
        while missing:
            stored = other.enqueue_jobs("pins", [NewJob(b"none")] * min(missing, 1000))
            missing -= other.delete_these("pins", stored, JobState.PENDING)
        assert other.enqueue_jobs("pins", [NewJob(b"other")] * 5) == names
        expected = source.count("pins", JobState.PENDING) + other.count("pins", JobState.PENDING)
        for one in (source, other):
            Migration(one, target, "pins", "pins").move(0)
        assert counts(target)[0] == expected


def number_of(descriptor):
    return int(descriptor.rpartition(":")[2])


@pytest.mark.parametrize("way", ["move", "copy"])
def test_jobs_keep_their_keys_and_those_of_an_ordered_key_their_order(source, target, way, monkeypatch):
    monkeypatch.setattr("pinlater.client.migration.PAGE_SIZE", 7)
    ordered, later, limited = JobKey("o", 1, is_ordered=True), JobKey("l", 1, is_ordered=True), JobKey("k", 2)
    soon_ms = int(time.time() * 1000) + 3_600_000
    source.enqueue_jobs("pins", [NewJob(b"o%02d" % number, key=ordered) for number in range(20)])
    source.enqueue_jobs("pins", [NewJob(b"l%02d" % number, key=later, run_after_ms=soon_ms) for number in range(20)])
    source.enqueue_jobs("pins", [NewJob(b"k%02d" % number, key=limited) for number in range(20)])
    migration = Migration(source, target, "pins", "pins")
    assert migration.move(0) == 0 if way == "move" else migration.copy() is None
    assert migration.moved.total() == 60
    names = [
        info.descriptor for future in (True, False) for info in target.scan_all("pins", JobState.PENDING, future=future)
    ]
    there = target.lookup(names, include_body=True)
    for key in (ordered, later, limited):
        jobs = [there[name] for name in reversed(names) if there[name].key == key]
        bodies = [b"%s%02d" % (key.text.encode(), number) for number in range(20)]
        assert [job.body for job in jobs] == bodies if key.is_ordered else sorted(job.body for job in jobs) == bodies
        waiting = [job.waits_for_key for job in jobs]
        assert waiting == [False] * key.max_running + [True] * (20 - key.max_running)


@pytest.mark.parametrize("way", ["migrated", "moved"])
def test_a_job_takes_the_results_of_its_steps_along(source, target, way):
    message = StepResults({"load": [1], "load#2": 2}, {"load": "abcdef"}, {"load": "load"}, {"load#2"})
    body = b'{"job":"Walk$kept","name":"n","$steps":{"load#3":3},"$kept":2,"$prints":{"load#3":"ghijkl"}}'
    [descriptor] = source.enqueue_jobs("pins", [NewJob(body)])
    [job] = source.dequeue_jobs("pins", 1)
    kept = [Message("steps/0", "one", msgspec.json.encode(message))]
    source.checkpoint("pins", [Checkpoint(descriptor, job.claim, move_to_pending=True, keeps=kept)])
    if way == "migrated":
        Migration(source, target, "pins", "pins").move(0)
        there = target
    else:
        source.create_queue("pins_2")
        assert source.move_these(Move("pins", "pins_2", JobState.PENDING), [descriptor]) == 1
        there = source
    queue = "pins" if way == "migrated" else "pins_2"
    [found] = [*there.scan_all(queue, JobState.PENDING), *there.scan_all(queue, JobState.PENDING, future=True)]
    assert json.loads(there.lookup([found.descriptor], include_body=True)[found.descriptor].body) == {
        "job": "Walk",
        "name": "n",
        "$steps": {"load": [1], "load#2": 2, "load#3": 3},
        "$prints": {"load": "abcdef", "load#3": "ghijkl"},
        "$fingerprints": {"load": "load/"},
        "$untyped": ["load#2"],
    }
    there.delete_queue(queue, "open sesame")
    there.create_queue(queue)
