"""Messages of the SQLite store: what they cost the others, how they are deleted, and when a dequeue hears of them."""

import asyncio
import sqlite3

import pytest

from pinlater.errors import EnqueueRejected
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, MessageWait, Parent
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.sqlite import messages
from tests.support.bench import FAR_MS, QUEUE, ack_of, checkpoint_of, new_job
from tests.support.failing_commits import FailingCommits


def rows(home, table):
    """Return how many rows a table has."""
    connection = sqlite3.connect(home.folder / "pinlater.db")
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    connection.close()
    return count


class Statements:
    """Hears which statements the writer runs; nothing is in the works here, so its connection may be borrowed."""

    def __init__(self, store):
        self._connection = store.backend._writer._connection

    def texts_of(self, call):
        """Return the statements that a call takes, beside those of the transaction."""
        heard = []
        self._connection.set_trace_callback(heard.append)
        call()
        self._connection.set_trace_callback(None)
        return [text for text in heard if not text.lstrip().startswith(("BEGIN", "COMMIT", "PRAGMA", "--"))]

    def of(self, call):
        """Return how many statements a call takes, beside those of the transaction."""
        return len(self.texts_of(call))


def test_what_others_use_costs_a_queue_without_nothing(store):
    def costs():
        statements = Statements(store)
        names = store.put(*[new_job() for _ in range(4)])
        claim = store.claim()
        store.dequeue_jobs(QUEUE, 4, claim)
        held = {"claim": claim.descriptor}
        found = [
            statements.of(call)
            for call in (
                lambda: store.checkpoint(names[0], **held),
                lambda: store.checkpoint(names[0], **held, body=b"new"),
                lambda: store.ack(names[0], **held),
                lambda: store.fail(names[1], **held),
                lambda: store.checkpoint(names[2], **held, move_to_pending=True),
                lambda: store.release_claims(QUEUE, "worker"),
                lambda: store.delete_these_jobs(QUEUE, [], IN_PROGRESS),
                store.reap,
            )
        ]
        assert store.delete() == 3
        return found

    before = costs()
    store.create_queue("family")
    parent = store.put_one(queue="family")
    store.take(queue="family")
    (child,) = store.put(new_job(parent=Parent(parent, "join", 0)), queue="family")
    store.take(queue="family")
    store.cancel(child, queue="family")
    store.ack(child, queue="family")
    assert costs() == before
    assert before[:4] == [1, 2, 1, 1]


def open_families(home):
    """Return how many families there are, and how many of them have unfinished jobs."""
    return rows(home, "families"), rows(home, "families WHERE is_open")


def test_families_are_open_while_jobs_of_them_are_unfinished(store, home):
    parent, _ = store.started(b"parent")
    names = store.put(*[new_job(parent=Parent(parent, "join", at), attempts=1) for at in range(600)])
    assert open_families(home) == (3, 3)
    store.take(1000)
    store.ack(*names[:249], *names[250:500])
    assert open_families(home) == (3, 2)
    store.reopen()  # which families were stored lately is not known any more
    store.fail(names[249])
    store.ack(*names[501:])
    assert open_families(home) == (3, 1)
    assert [str(job) for job in store.children_to_cancel([JobDescriptor.parse(parent)], 10)] == [names[500]]
    store.delete_these_jobs(QUEUE, [JobDescriptor.parse(names[500])], IN_PROGRESS)
    assert open_families(home) == (3, 0)
    assert store.retry() == 1
    assert open_families(home) == (3, 1)
    assert [str(job) for job in store.children_to_cancel([JobDescriptor.parse(parent)], 10)] == [names[249]]
    store.cancel(names[249])
    assert open_families(home) == (3, 0)
    assert store.retry_these_jobs(QUEUE, [JobDescriptor.parse(names[249])], 1, None) == 1
    assert open_families(home) == (3, 1)
    store.cancel(names[249])
    store.clock.advance(1000)
    store.collect_finished(500, 10**9, 500)
    assert open_families(home) == (2, 0)
    store.collect_finished(500, 500, 1000)
    assert open_families(home) == (0, 0)


@pytest.mark.parametrize("at_once", [10_000, 3])
def test_nothing_is_left_of_deleted_jobs(store, home, monkeypatch, at_once):
    monkeypatch.setattr(messages, "_FORGOTTEN_AT_ONCE", at_once)
    names = store.put(*[new_job() for _ in range(4)])
    store.take()
    for name in names:
        for number in range(5):
            store.send(name, "go", str(number))
    store.ack(names[0], names[1])
    store.clock.advance(10)
    store.collect_finished(1, 1, 1)
    store.delete(IN_PROGRESS, limit=1)
    assert rows(home, "messages") <= 20 - 2 * min(at_once, 5)
    store.delete_queue(QUEUE)
    rounds = 0
    while rows(home, "messages") or rows(home, "deleted_receivers") or rows(home, "jobs"):
        store.collect_finished(1, 1, 100)
        rounds += 1
    assert rounds <= (2 if at_once > 100 else 30)


def test_what_is_left_of_a_job_with_many_messages_is_deleted_after_a_restart(store, home, monkeypatch):
    monkeypatch.setattr(messages, "_FORGOTTEN_AT_ONCE", 2)
    name, _ = store.started()
    for number in range(9):
        store.send(name, "go", str(number))
    store.delete(IN_PROGRESS)
    assert rows(home, "messages") == 7
    store.reopen()
    for _ in range(5):
        store.collect_finished(1, 1, 10)
    assert rows(home, "messages") == rows(home, "deleted_receivers") == 0


def test_large_results_of_children_are_deleted_in_steps(store, home, monkeypatch):
    """A row has the results of many children, so few rows may have more bytes than one transaction should delete."""
    monkeypatch.setattr(messages, "_FORGOTTEN_BYTES", 1500)
    parent, _ = store.started()
    for child in store.put(*[new_job(parent=Parent(parent, "join", at)) for at in range(5)]):
        store.take(1)
        store.ack(child, result=b"x" * 1000)
    store.delete(IN_PROGRESS)
    assert rows(home, "messages") == 3
    store.reopen()
    store.collect_finished(10**9, 10**9, 10)
    assert rows(home, "messages") == 1
    store.collect_finished(10**9, 10**9, 10)
    assert rows(home, "messages") == rows(home, "deleted_receivers") == 0


def test_a_stale_ack_beside_those_of_children_reads_none_of_the_messages(store):
    """A parent has many, and these would be read with each commit."""
    parent, _ = store.started()
    other, *children = store.put(new_job(), *[new_job(parent=Parent(parent, "join", at)) for at in range(3)])
    store.take()
    store.ack(other)

    def ack(name):
        return lambda: store.backend.ack_dequeued_jobs(QUEUE, [ack_of(name)], [])

    heard = Statements(store).texts_of(lambda: store.together(*map(ack, [other, *children])))
    assert not [text for text in heard if text.startswith("SELECT id FROM messages")]
    assert len(store.read(parent, "join")) == 3


@pytest.mark.parametrize("is_restarted", [False, True])
def test_results_that_are_acked_together_are_one_row(store, home, is_restarted):
    """Also after a restart, when the server has to read who the parents are."""
    parent, claim = store.started()
    children = store.put(*[new_job(parent=Parent(parent, "resize", at)) for at in range(250)])
    if is_restarted:
        store.reopen()
    store.take(250)
    waits = [MessageWait("resize", 250)]
    sleep = checkpoint_of(parent, claim=claim, move_to_pending=True, run_after_ms=FAR_MS)._replace(waits_for=waits)
    store.run(store.backend.checkpoint_jobs(QUEUE, [sleep]))
    store.ack(*children, result=b"1")
    assert rows(home, "messages") == 1
    assert [message.id for message in store.read(parent, "resize")] == [str(at) for at in range(250)]
    assert store.take_names() == [parent]


def test_a_refused_call_costs_those_beside_it_no_commits(store, home):
    def put(job):
        return lambda: store.backend.enqueue_jobs(QUEUE, [job])

    refused, *stored = store.together(
        put(new_job(parent=Parent(f"{QUEUE}:s1:p1:99", "join", 0))), *[put(new_job()) for _ in range(10)]
    )
    assert isinstance(refused, EnqueueRejected)
    assert len(stored) == 10
    assert [commit.requests for commit in home.commits] == [11]


def test_who_is_woken_is_said_once_for_each_commit_with_the_priority(store, home):
    names = [store.asleep(("go", 1), priority=2) for _ in range(3)]
    store.together(*[lambda name=name: store.backend.send_message(*_message_to(name)) for name in names])
    store.run(asyncio.sleep(0))
    assert home.woken == [(QUEUE, 3, [JobLocation("1", 2)])]


def _message_to(name):
    return JobDescriptor.parse(name), Message("go", "1", b"")


def test_nobody_is_woken_by_a_commit_that_fails(store, home):
    parent = store.asleep(("join", 1))
    (child,) = store.put(new_job(parent=Parent(parent, "join", 0)))
    store.take()
    commits = FailingCommits.of(store.backend)
    commits.fail_always()
    store.together(lambda: store.backend.ack_dequeued_jobs(QUEUE, [ack_of(child)], []))
    store.run(asyncio.sleep(0))
    assert home.woken == []
    commits.work_again()
    store.ack(child)
    store.run(asyncio.sleep(0))
    assert home.woken == [(QUEUE, 1, [JobLocation("1", 1)])]


def test_a_queue_that_learned_of_parents_in_a_commit_that_failed_learns_again(store):
    """What is known of a queue in memory must be in the file, too, when it is opened again."""
    parent, _ = store.started()
    commits = FailingCommits.of(store.backend)
    commits.fail_always()
    job = new_job(parent=Parent(parent, "join", 0))
    store.together(lambda: store.backend.enqueue_jobs(QUEUE, [job]))
    commits.work_again()
    (child,) = store.put(job)
    store.take()
    store.reopen()
    store.ack(child)
    assert len(store.read(parent, "join")) == 1


def test_a_dequeue_that_found_nothing_knows_that_before_it_hears_of_a_woken_job(store, home):
    """Otherwise it would wait for a job that is due already."""
    parent = store.asleep(("join", 1))
    store.create_queue("other")
    (child,) = store.put(new_job(parent=Parent(parent, "join", 0)), queue="other")
    order = []
    home._notifications.on_claimable = lambda *_: order.append("woken")

    async def dequeue():
        order.append((await store.backend.dequeue_jobs(QUEUE, 1, store.claim())).jobs)

    store.together(dequeue, lambda: store.backend.delete_queue("other"))
    order.clear()
    store.together(dequeue, lambda: store.backend.collect_finished(10**9, 10**9, 10))
    store.run(asyncio.sleep(0))
    assert order == [[], "woken"]
    assert child


def test_a_sleep_and_what_ends_it_in_one_commit(store, home):
    name, claim = store.started()
    sleep = checkpoint_of(
        name, claim=claim, move_to_pending=True, run_after_ms=FAR_MS, waits_for=[MessageWait("go", 1)]
    )
    dequeued = store.together(
        lambda: store.backend.dequeue_jobs(QUEUE, 1, store.claim()),
        lambda: store.backend.send_message(*_message_to(name)),
        lambda: store.backend.checkpoint_jobs(QUEUE, [sleep]),
    )[0]
    assert [job.descriptor for job in dequeued.jobs] == [name]
    assert len(home.commits) == 3
