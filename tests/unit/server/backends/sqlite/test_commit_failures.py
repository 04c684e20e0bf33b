"""Commits of the SQLite store that fail: whoever asked is told, and nothing is left of what was refused."""

import sqlite3

import pytest

from pinlater.errors import UnknownError
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.sqlite.transaction import IdBlock
from pinlater.server.backends.sqlite.writer import _translate
from tests.support.bench import LEASE_MS, QUEUE, ack_of, new_job
from tests.support.failing_commits import FailingCommits


@pytest.fixture
def commits(store):
    return FailingCommits.of(store.backend)


def test_a_claim_whose_commit_fails_hands_nothing_out(store, commits):
    name = store.put_one(attempts=1)
    commits.fail_always()
    for _ in range(5):
        with pytest.raises(UnknownError, match="nothing was changed"):
            store.take()
    commits.work_again()
    record = store.look(name)
    assert (record.state, record.attempts_remaining) == (PENDING, 1)
    assert store.take_names() == [name]


def test_what_was_refused_is_handed_to_nobody(store, commits):
    commits.fail_always()
    refused, dequeued = store.together(
        lambda: store.backend.enqueue_jobs(QUEUE, [new_job()]),
        lambda: store.backend.dequeue_jobs(QUEUE, 10, store.claim()),
    )
    assert isinstance(refused, UnknownError)
    assert isinstance(dequeued, UnknownError) or dequeued.jobs == []
    commits.work_again()
    assert store.take() == []


def test_requests_that_are_carried_out_one_by_one_are_each_answered_as_they_ended(store, commits):
    """Of a transaction that fails as a whole, the job is stored, its claim fails, and the ack is refused."""
    done, claim = store.started()
    commits.plan = iter([True, True, False, True])
    acked, (name,), dequeued = store.together(
        lambda: store.backend.ack_dequeued_jobs(QUEUE, [ack_of(done, claim=claim)], []),
        lambda: store.backend.enqueue_jobs(QUEUE, [new_job()]),
        lambda: store.backend.dequeue_jobs(QUEUE, 10, store.claim()),
    )
    assert isinstance(acked, UnknownError)
    assert isinstance(dequeued, UnknownError)
    assert commits.failed == 3
    assert (store.state(done), store.state(name)) == (IN_PROGRESS, PENDING)


def test_another_program_s_lock_is_waited_for_once_and_not_by_each_request_in_turn(store, home):
    store.backend._writer._connection.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(home.folder / "pinlater.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused = store.together(*[lambda: store.backend.enqueue_jobs(QUEUE, [new_job()])] * 5)
    other.execute("ROLLBACK")
    other.close()
    assert all(isinstance(error, UnknownError) for error in refused)
    assert [(stats.requests, stats.is_failed) for stats in home.commits] == [(5, True)]
    assert len(store.put(new_job())) == 1


def test_ids_of_a_failed_transaction_are_never_given_out(store):
    connection = store.backend._writer._connection
    ids = IdBlock()
    seen = set()
    for is_kept in (False, True, False, False, True):
        connection.execute("BEGIN IMMEDIATE")
        taken = {ids.take(connection, 1) for _ in range(3)}
        connection.execute("COMMIT" if is_kept else "ROLLBACK")
        if not is_kept:
            ids.forget()
        assert not taken & seen
        seen |= taken


def test_failed_commits_and_what_they_undid_are_counted(store, home, commits):
    store.put(*[new_job()] * 3)
    home.commits.clear()
    commits.plan = iter([True])
    with pytest.raises(UnknownError):
        store.take(2)
    assert [(stats.is_failed, stats.claims_undone) for stats in home.commits] == [(True, 2)]
    assert len(store.take(2)) == 2
    assert [(stats.is_failed, stats.claims_undone) for stats in home.commits] == [(True, 2), (False, 0)]


def test_holders_have_time_to_renew_claims_when_the_store_works_again(store, commits):
    name, claim = store.started()
    commits.fail_always()
    with pytest.raises(UnknownError):
        store.checkpoint(name, claim=claim)
    commits.work_again()
    store.clock.advance(LEASE_MS + 1)
    assert store.reap_expired(10, server_age_ms=10**9, quiet_ms=10_000) == []
    assert store.checkpoint(name, claim=claim).changed == 1
    assert store.reap_expired(10, server_age_ms=10**9, quiet_ms=0) == []


def test_nobody_is_told_that_nothing_was_changed_when_only_the_sync_failed():
    """What was written may be found again after a crash."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    assert "may come back" in str(_translate(error))
    assert "nothing was changed" not in str(_translate(error))


def test_a_full_disk_is_said_to_need_space():
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert str(_translate(error)).endswith(
        "nothing was changed: database or disk is full; free space on the disk of the server's DATA_DIR"
    )
