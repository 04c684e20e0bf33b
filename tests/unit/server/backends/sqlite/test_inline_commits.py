"""Small transactions in the event loop: which ones, and that a disk that stalls does not stop the loop again."""

import asyncio
import random
import sqlite3
import threading
from types import SimpleNamespace

import pytest

from pinlater.errors import UnknownError
from pinlater.model.keys import JobKey
from pinlater.model.messages import Message, Parent
from pinlater.server.backends.sqlite.inline_commits import InlineCommits
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.support.waiting import until


class Disk:
    """Stands in for a writer's connection and cursor: remembers which thread commits, and stalls when a test says so.

    Attributes:
        now: what a clock shows that goes on in commits alone: the machine is never slow by itself.
        stall_seconds: how long commits take from now on, by that clock.
        begins: for each transaction, a thread and how long it waits for locks, in milliseconds.
        committers: a thread for each commit.
        clashes: how often two threads used the connection at once.
        may_commit: what is to be committed waits for this.
        has_stopped: whether it waited in vain: what stops the event loop keeps the test from setting it.
    """

    def __init__(self, connection):
        self._connection = connection
        self._lock = threading.Lock()
        self.now = self.stall_seconds = 0.0
        self.begins = []
        self.committers = []
        self.clashes = 0
        self.has_stopped = False
        self.may_commit = threading.Event()
        self.may_commit.set()

    def _use(self, method, *arguments):
        if not self._lock.acquire(blocking=False):
            self.clashes += 1
            self._lock.acquire()
        try:
            if arguments[0].startswith("BEGIN"):
                [(busy_ms,)] = sqlite_setting(self, "busy_timeout")
                self.begins.append((threading.current_thread().name, busy_ms))
            if arguments[0] == "COMMIT":
                self.committers.append(threading.current_thread().name)
                self.has_stopped = self.has_stopped or not self.may_commit.wait(20)
                self.now += self.stall_seconds
            return method(*arguments)
        finally:
            self._lock.release()

    def execute(self, *arguments):
        return self._use(self._connection.execute, *arguments)

    def executemany(self, *arguments):
        return self._use(self._connection.executemany, *arguments)

    def executescript(self, *arguments):
        return self._use(self._connection.executescript, *arguments)

    @property
    def in_transaction(self):
        return self._connection.in_transaction

    def close(self):
        self._connection.close()

    @property
    def inline(self):
        """For each commit, whether the event loop carried it out."""
        return [name != "sqlite-writer" for name in self.committers]


@pytest.fixture
def disk(store, home, monkeypatch):
    """Of a machine that is never slow by itself, so that only the test decides."""
    writer = store.backend._writer
    disk = writer._connection = writer._cursor = Disk(writer._connection)
    writer._inline_commits = InlineCommits(lambda: disk.now)
    monkeypatch.setattr("pinlater.server.backends.sqlite.writer.time", SimpleNamespace(perf_counter=lambda: disk.now))
    store.finished()
    home.commits.clear()
    disk.begins.clear()
    disk.committers.clear()
    yield disk
    assert (disk.clashes, disk.has_stopped) == (0, False)


def kept(payload=b""):
    return Message("steps/0", "1", payload)


def test_one_small_request_at_a_time_is_carried_out_in_the_loop(store, disk, home):
    store.put_one()
    store.take(1)
    done, claim = store.started()
    store.ack(done, claim=claim)
    name, claim = store.started()
    store.checkpoint(name, claim=claim, body=b"step", keeps=[kept(b"result")])
    store.checkpoint(name, claim=claim, move_to_pending=True)
    assert disk.inline == [True] * 9
    assert [(stats.requests, stats.is_failed) for stats in home.commits] == [(1, False)] * 9
    assert store.backend.waiting == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put(*[new_job()] * 2),
        lambda store: store.put_one(b"x" * 20_000),
        lambda store: store.put_one(parent=Parent(store.started()[0], "join", 0)),
        lambda store: store.take(100),
        lambda store: store.dequeue_jobs(QUEUE, 1, store.claim(), max_running=5),
        lambda store: store.ack(*store.put(*[new_job()] * 11)),
        lambda store: store.checkpoint(store.put_one(), drops=["steps/0"]),
        lambda store: store.checkpoint(store.put_one(), body=b"x" * 10_000, keeps=[kept(b"x" * 10_000)]),
        lambda store: store.checkpoint(store.put_one(), keeps=[kept()] * 11),
        lambda store: store.create_queue("thumbnails"),
        lambda store: store.reap(),
        lambda store: store.collect_finished(1, 1, 10),
    ],
    ids=[
        "jobs",
        "large",
        "child",
        "many",
        "limit of running jobs",
        "acks",
        "messages to drop",
        "large message to keep",
        "messages to keep",
        "queue",
        "expired leases",
        "collection",
    ],
)
def test_what_may_take_longer_is_the_thread_s(store, disk, call):
    call(store)
    assert disk.inline[-1] is False


@pytest.mark.parametrize("options", [{}, {"key": JobKey("key")}, {"unique_key": "key"}], ids=["plain", "key", "unique"])
def test_an_enqueue_and_the_dequeue_that_waits_for_it_share_a_transaction_of_the_loop(store, disk, options):
    dequeued, (name,) = store.together(
        lambda: store.backend.dequeue_jobs(QUEUE, 1, store.claim()),
        lambda: store.backend.enqueue_jobs(QUEUE, [new_job(**options)]),
    )
    assert [job.descriptor for job in dequeued.jobs] == [name]
    assert disk.inline == [True]


def test_more_requests_of_one_turn_share_a_transaction_of_the_thread(store, disk):
    first, second, _ = store.together(
        lambda: store.backend.enqueue_jobs(QUEUE, [new_job()]),
        lambda: store.backend.enqueue_jobs(QUEUE, [new_job()]),
        lambda: store.backend.dequeue_jobs(QUEUE, 1, store.claim()),
    )
    assert len({*first, *second}) == 2
    assert disk.inline == [False]


def test_two_requests_that_fail_together_are_carried_out_one_by_one(store, disk):
    async def both():
        return await asyncio.gather(
            store.backend.enqueue_jobs(QUEUE, [new_job(run_after_ms=2**80)]),
            store.backend.enqueue_jobs(QUEUE, [new_job()]),
            return_exceptions=True,
        )

    failed, stored = store.run(both())
    assert isinstance(failed, UnknownError)
    assert len(stored) == store.count() == 1


def test_while_the_thread_has_the_connection_the_loop_leaves_it_alone(store, disk):
    async def arrive():
        disk.may_commit.clear()
        big = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()] * 2))
        await until(lambda: disk.committers)
        small = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()]))
        await until(lambda: store.backend.waiting == 2)
        await asyncio.sleep(0)
        disk.may_commit.set()
        await asyncio.gather(big, small)

    store.run(arrive())
    assert disk.inline == [False, False]


@pytest.mark.parametrize("seconds", [0.02, 1.5])
def test_a_disk_that_stalls_stops_the_loop_once(store, disk, seconds):
    async def enqueue_beside_the_loop():
        disk.may_commit.clear()
        before = len(disk.committers)
        task = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()]))
        await until(lambda: len(disk.committers) > before)
        disk.may_commit.set()
        await task

    disk.stall_seconds = seconds
    store.put_one()
    for _ in range(3):
        store.run(enqueue_beside_the_loop())
    disk.stall_seconds = 0.0
    for _ in range(3):
        store.run(enqueue_beside_the_loop())
    assert disk.inline == [True] + [False] * 6


def test_another_program_s_lock_does_not_stop_the_loop(store, disk, home):
    other = sqlite3.connect(home.folder / "pinlater.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def enqueue():
        task = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()]))
        await until(lambda: len(disk.begins) == 2)
        assert not task.done()
        other.execute("ROLLBACK")
        return await task

    names = store.run(enqueue())
    other.close()
    assert len(names) == 1
    assert disk.inline == [False]
    assert disk.begins == [("MainThread", 0), ("sqlite-writer", 30_000)]


def test_the_thread_waits_for_a_lock_each_time_the_loop_had_the_connection(store, disk, home):
    """What is set for the loop must be unset for the thread, again and again."""
    for _ in range(3):
        store.backend._writer._inline_commits = InlineCommits()
        store.put(new_job())
        store.put(new_job())
        assert disk.inline[-1] is True
        assert disk._connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
        store.put(*[new_job()] * 2)
        assert disk.inline[-1] is False
        [(timeout,)] = sqlite_setting(disk, "busy_timeout")
        [(pages,)] = sqlite_setting(disk, "wal_autocheckpoint")
        assert (timeout, pages) == (30_000, 4000)


def sqlite_setting(disk, name):
    return disk._connection.execute(f"PRAGMA {name}").fetchall()


def test_a_request_that_fails_in_the_loop_is_told_and_leaves_nothing(store, disk, home):
    with pytest.raises(UnknownError, match="nothing was changed"):
        store.put(new_job(run_after_ms=2**80))
    assert store.count() == 0
    assert store.backend.waiting == 0
    assert len(store.put(new_job())) == 1


def test_a_failed_commit_in_the_loop_is_counted_and_undone(store, disk, home):
    disk._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(UnknownError, match="nothing was changed"):
        store.put(new_job())
    disk._connection.execute("PRAGMA query_only = 0")
    assert [(stats.requests, stats.is_failed) for stats in home.commits] == [(1, True)]
    assert store.count() == 0
    store.put(new_job())
    assert disk.inline == [False]


def test_a_caller_that_gave_up_does_not_see_its_result(store, disk):
    async def give_up():
        task = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()]))
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    [result] = store.run(give_up())
    assert isinstance(result, asyncio.CancelledError)
    assert store.backend.waiting == 0
    assert store.count() == 1  # submitted is submitted, as in the thread
    assert disk.inline == [True]


def test_closing_finishes_a_small_request_in_the_thread(store, disk):
    async def submit_and_close():
        task = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()]))
        await asyncio.sleep(0)
        await store.backend.close()
        return await task

    assert len(store.run(submit_and_close())) == 1
    assert disk.inline == [False]
    store.backend = store.run(store._open())
    assert store.count() == 1


@pytest.mark.parametrize("seed", range(3))
def test_loop_and_thread_never_use_the_connection_at_once(store, disk, seed):
    chance = random.Random(seed)

    async def client():
        for _ in range(60):
            names = await store.backend.enqueue_jobs(QUEUE, [new_job()] * chance.choice([1, 1, 3]))
            await asyncio.sleep(chance.choice([0, 0, 0.002]))
            claim = store.claim()
            found = (await store.backend.dequeue_jobs(QUEUE, chance.choice([1, 100]), claim)).jobs
            jobs = [job.descriptor for job in found]
            if jobs:
                kept = await store.backend.checkpoint_jobs(QUEUE, [checkpoint_of(jobs[0], claim=claim.descriptor)])
                assert (kept.changed, kept.stale) == (1, 0)
                acks = [ack_of(name, claim=claim.descriptor) for name in jobs]
                settled = await store.backend.ack_dequeued_jobs(QUEUE, acks, [])
                assert (settled.changed, settled.stale) == (len(jobs), 0)
            assert names

    async def clients(count):
        await asyncio.gather(*(client() for _ in range(count)))

    for count in (1, 4, 1):
        store.run(clients(count))
    assert {True, False} <= set(disk.inline)
    assert store.backend.waiting == 0
