"""Chosen jobs move to another queue of their store, whichever it is; also past workers, and past a mover that dies."""

import asyncio
import os
import signal
import time

import pytest

from pinlater import AsyncClient, Client, JobState
from pinlater.client import Ack, Checkpoint, Move, NewJob
from pinlater.client.moved_jobs import with_unique_key
from pinlater.errors import CallTimeout, UnknownError
from pinlater.jobs.waiting import ENDLESS_MS
from pinlater.model.messages import MessageWait, Parent
from tests.support.server import ServerProcess
from tests.support.stores import STORES

OLD, NEW = "email", "email_big"
PENDING, FAILED = JobState.PENDING, JobState.FAILED
BATCH = b'{"job":"pinlater.batch","size":2}'


@pytest.fixture(scope="module", params=STORES)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    settings = STORES[request.param].settings(folder)
    server = ServerProcess(folder / "server", **settings)
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.log


@pytest.fixture
def client(server):
    with Client(server.address, timeout=60) as client:
        for name in (OLD, NEW):
            client.create_queue(name)
        yield client
        for name in (OLD, NEW):
            client.delete_queue(name, "open sesame")


@pytest.fixture
def at_once(monkeypatch):
    """Moved jobs are due at once."""
    monkeypatch.setattr("pinlater.client.moving.HOLD_SECONDS", 0.0)


def failed(client, bodies):
    client.enqueue_jobs(OLD, [NewJob(body, attempts=1, priority=2) for body in bodies])
    claimed = client.dequeue_jobs(OLD, len(bodies))
    client.ack(OLD, failed=[Ack(job.descriptor, job.claim, f"why {job.body.decode()}") for job in claimed])
    return [job.descriptor for job in claimed]


def jobs_in(client, queue, state, *, future=False):
    names = [info.descriptor for info in client.scan_all(queue, state, future=future)]
    return client.lookup(names, include_body=True)


def bodies_in(client, queue, state, *, future=False):
    return sorted(job.body for job in jobs_in(client, queue, state, future=future).values())


def test_pending_jobs_come_with_everything_and_in_their_order(client, at_once):
    names = client.enqueue_jobs(OLD, [NewJob(b"%d" % number, attempts=7, status="why") for number in range(120)])
    (before,) = client.lookup(names[:1]).values()
    move = Move(OLD, NEW, PENDING)
    assert client.move_these(move, names[:100]) == move.moved == 100
    assert (move.left, client.count(OLD, PENDING)) == (0, 20)
    claimed = client.dequeue_jobs(NEW, 200)
    assert [job.body for job in claimed] == [b"%d" % number for number in range(100)]
    (job,) = client.lookup([claimed[0].descriptor]).values()
    assert (job.attempts_allowed, job.attempts_remaining, job.created_at_ms) == (7, 7, before.created_at_ms)
    assert job.status == f"moved from {names[0]}\nwhy"


def test_a_moved_job_that_is_due_waits_until_its_mover_is_sure(client):
    later = int(time.time() * 1000) + 3_600_000
    names = client.enqueue_jobs(OLD, [NewJob(b"due"), NewJob(b"later", run_after_ms=later, unique="nightly")])
    client.move_these(Move(OLD, NEW, PENDING), names)
    assert client.dequeue_jobs(NEW, 2) == []
    found = {job.body: job for job in jobs_in(client, NEW, PENDING, future=True).values()}
    assert 0 < found[b"due"].run_after_ms - time.time() * 1000 <= 10_000
    assert (found[b"later"].run_after_ms, found[b"later"].unique) == (later, "nightly")


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_the_clock_of_the_movers_machine_does_not_matter(client, monkeypatch, seconds):
    names = client.enqueue_jobs(OLD, [NewJob(b"due")])
    sure_ms, clock = time.time() * 1000, time.time
    with monkeypatch.context() as wrong:
        wrong.setattr("time.time", lambda: clock() + seconds)
        client.move_these(Move(OLD, NEW, PENDING), names)
    [job] = jobs_in(client, NEW, PENDING, future=True).values()
    assert job.run_after_ms - sure_ms > 9_000
    assert job.run_after_ms - time.time() * 1000 <= 11_000


def test_failed_jobs_stay_failed_or_are_tried_again(client, at_once):
    names = failed(client, [b"1", b"2", b"3"])
    client.move_these(Move(OLD, NEW, FAILED), names[:1])
    (job,) = jobs_in(client, NEW, FAILED).values()
    assert (job.body, job.status, job.descriptor.split(":")[2]) == (b"1", f"moved from {names[0]}\nwhy 1", "p2")
    client.move_these(Move(OLD, NEW, FAILED, attempts=3), names[1:])
    assert client.count(NEW, PENDING, retrying=True) == 0  # as with those that are retried in their queue
    claimed = client.dequeue_jobs(NEW, 5)
    assert sorted((job.body, job.attempts_allowed, job.attempts_remaining) for job in claimed) == [
        (b"2", 3, 3),
        (b"3", 3, 3),
    ]
    assert client.count(OLD, FAILED) == 0


def test_a_cancelled_job_that_has_something_to_undo_stays_cancelled_unless_it_is_retried(client, at_once):
    asked, given_up = client.enqueue_jobs(OLD, [NewJob(b'{"$saga":{"steps":["pay"]}}', attempts=5)] * 2)
    claims = {job.descriptor: job.claim for job in client.dequeue_jobs(OLD, 2)}
    client.ack(OLD, failed=[Ack(name, claim, cancelled=name == given_up) for name, claim in claims.items()])
    client.cancel_these(OLD, [asked])
    assert client.move_these(Move(OLD, NEW, PENDING), [asked]) == 1
    [moved] = jobs_in(client, NEW, PENDING).values()
    assert moved.is_cancelled
    assert client.delete_these(NEW, [moved.descriptor], PENDING) == 1
    cancelled = client.enqueue_jobs(OLD, [NewJob(b"{}")])
    client.cancel_these(OLD, cancelled)
    assert client.move_these(Move(OLD, NEW, FAILED, 3), [given_up, *cancelled]) == 2
    assert [(job.state, job.is_cancelled) for job in jobs_in(client, NEW, PENDING).values()] == [(PENDING, False)] * 2


def test_jobs_that_are_not_as_they_were_stay(client, at_once):
    names = client.enqueue_jobs(OLD, [NewJob(b"claimed"), NewJob(b"gone"), NewJob(b"there")])
    client.dequeue_jobs(OLD, 1)
    client.delete_these(OLD, names[1:2], PENDING)
    move = Move(OLD, NEW, PENDING)
    assert client.move_these(move, names) == 1
    assert (move.left, bodies_in(client, NEW, PENDING)) == (2, [b"there"])


def test_jobs_that_messages_are_for_or_that_others_wait_for_stay(client, at_once):
    """A copy would wait for ever for what has been, or will be, sent to the original."""
    bodies = b"{}", b'{"$calls":{"part":{"count":1,"batch":1}}}', b'{"$events":{"paid":{"here":1}}}', b"parent", BATCH
    names = client.enqueue_jobs(OLD, [NewJob(body) for body in bodies])
    taken = client.dequeue_jobs(OLD, 5)
    wait = [MessageWait("event/paid", 1)]
    client.checkpoint(OLD, [Checkpoint(taken[0].descriptor, taken[0].claim, None, True, ENDLESS_MS, waits_for=wait)])
    client.checkpoint(OLD, [Checkpoint(job.descriptor, job.claim, None, True) for job in taken[1:]])
    names += client.enqueue_jobs(OLD, [NewJob(b"child", parent=Parent(names[3], "call/0/part", 0))])
    move = Move(OLD, NEW, PENDING)
    assert client.move_these(move, names) == 1
    assert (move.left, bodies_in(client, NEW, PENDING)) == (5, [b"parent"])


def test_a_worker_that_is_faster_keeps_its_job(client):
    names = client.enqueue_jobs(OLD, [NewJob(b"%d" % number) for number in range(5)])
    before(client, "deleteJobs", lambda: client.dequeue_jobs(OLD, 2))
    move = Move(OLD, NEW, PENDING)
    assert client.move_these(move, names) == 3
    assert (move.left, client.count(OLD, JobState.IN_PROGRESS)) == (2, 2)
    assert bodies_in(client, NEW, PENDING, future=True) == [b"2", b"3", b"4"]


def test_a_lost_answer_to_the_deletion_does_no_harm(client):
    names = client.enqueue_jobs(OLD, [NewJob(b"%d" % number) for number in range(5)])
    execute = client._execute

    def lose(call):
        answer = execute(call)
        if call.method == "deleteJobs":
            raise CallTimeout("lost")
        return answer

    client._execute = lose
    assert client.move_these(Move(OLD, NEW, PENDING), names) == 5
    assert (client.count(OLD, PENDING), len(bodies_in(client, NEW, PENDING, future=True))) == (0, 5)


def test_a_store_that_cannot_delete_has_no_copies_left(client):
    names = client.enqueue_jobs(OLD, [NewJob(b"%d" % number) for number in range(5)])

    def fail():
        client.delete_these(OLD, names[:2], PENDING)  # as of several shards, some may have done their part
        raise UnknownError("other transactions are in the way")

    before(client, "deleteJobs", fail)
    move = Move(OLD, NEW, PENDING)
    with pytest.raises(UnknownError, match="in the way"):
        client.move_these(move, names)
    assert (move.moved, move.left) == (2, 3)
    assert bodies_in(client, OLD, PENDING) == [b"2", b"3", b"4"]
    assert bodies_in(client, NEW, PENDING, future=True) == [b"0", b"1"]
    assert client.move_these(move, names[2:]) == 3


def before(client, method, act):
    """Do something before the first call of a method."""
    execute, left = client._execute, [act]

    def watched(call):
        if call.method == method and left:
            left.pop()()
        return execute(call)

    client._execute = watched


def test_a_job_whose_unique_key_is_taken_stays(client):
    names = client.enqueue_jobs(OLD, [NewJob(b"ours", unique="nightly"), NewJob(b"other")])
    client.enqueue_jobs(NEW, [NewJob(b"theirs", unique="nightly")])
    move = Move(OLD, NEW, PENDING)
    assert client.move_these(move, names) == 1
    assert (move.left, bodies_in(client, OLD, PENDING)) == (1, [b"ours"])
    assert bodies_in(client, NEW, PENDING) == [b"theirs"]


def test_a_job_whose_made_up_key_is_taken_stays_too(client):
    names = client.enqueue_jobs(OLD, [NewJob(b"ours"), NewJob(b"other")])
    known = client.lookup(names)
    # As of a job that came from another store, where it had the same address.
    client.enqueue_jobs(NEW, [NewJob(b"theirs", unique=with_unique_key(known[names[0]]).unique)])
    move = Move(OLD, NEW, PENDING)
    assert client.move_these(move, names) == 1
    assert (move.left, bodies_in(client, OLD, PENDING)) == (1, [b"ours"])
    assert bodies_in(client, NEW, PENDING) == [b"theirs"]


def test_a_failed_job_that_another_store_moved_is_no_copy(client):
    names = failed(client, [b"ours"])
    (job,) = client.lookup(names, include_body=True).values()
    # Moved in the store that it came from, where a job had the same address.
    theirs = job._replace(body=b"theirs", created_at_ms=job.created_at_ms - 1, status=f"moved from {names[0]}\nwhy")
    client.import_jobs(NEW, [theirs])
    assert client.move_these(Move(OLD, NEW, FAILED), names) == 1
    assert bodies_in(client, NEW, FAILED) == [b"ours", b"theirs"]


@pytest.mark.parametrize(("state", "attempts"), [(PENDING, None), (FAILED, None), (FAILED, 2)])
def test_a_mover_that_is_killed_and_repeated_doubles_and_loses_nothing(server, client, state, attempts):
    bodies = [b"%d" % number for number in range(200)]
    if state is FAILED:
        names = failed(client, bodies)
    else:
        names = client.enqueue_jobs(OLD, [NewJob(body, unique=f"key {body!r}") for body in bodies])
    for calls in (2, 3, 4, 5, 6):
        pid = os.fork()
        if pid == 0:
            die_after(calls, server, Move(OLD, NEW, state, attempts), names)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    client.move_these(Move(OLD, NEW, state, attempts), names)
    assert sum(client.count(OLD, each) for each in (PENDING, FAILED)) == 0
    is_pending = state is PENDING or attempts is not None
    there = bodies_in(client, NEW, PENDING if is_pending else FAILED, future=is_pending)
    assert there + bodies_in(client, NEW, PENDING) == sorted(bodies)


def die_after(calls, server, move, names):
    with Client(server.address) as client:
        execute, left = client._execute, [calls]

        def dying(call):
            answer = execute(call)
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        client._execute = dying
        client.move_these(move, names)
    os._exit(0)


def test_the_client_for_asyncio_moves_too(server, client):
    names = client.enqueue_jobs(OLD, [NewJob(b"%d" % number) for number in range(60)])

    async def main():
        async with AsyncClient(server.address) as other:
            return await other.move_these(Move(OLD, NEW, PENDING), names)

    assert asyncio.run(main()) == 60
    assert client.count(OLD, PENDING) == 0


def test_a_queue_that_is_not_there_is_created(client):
    names = client.enqueue_jobs(OLD, [NewJob(b"x")])
    assert client.move_these(Move(OLD, "elsewhere", PENDING), names) == 1
    assert client.count("elsewhere", PENDING, future=True) == 1
    client.delete_queue("elsewhere", "open sesame")


def test_a_move_that_makes_no_sense_is_refused():
    for wrong in ((OLD, OLD, PENDING), (OLD, NEW, JobState.IN_PROGRESS), (OLD, NEW, PENDING, 2), (OLD, NEW, FAILED, 0)):
        with pytest.raises(ValueError, match=r"move|attempts"):
            Move(*wrong)
