"""How the relay waits for commits in an SQLite file."""

import sqlite3
import threading
from contextlib import closing

import pytest

from pinlater.outbox import file_changes, sqlite
from pinlater.outbox.connecting import open_database
from pinlater.outbox.waker import Waker
from tests.support.outboxes import NotedWaker
from tests.support.server import wait_for

STORE = "INSERT INTO pinlater_outbox VALUES (1, 'a', x'', '{}', 0, NULL, NULL, 0, 0, NULL)"


@pytest.fixture(params=["told of writes", "not told"])
def database(request, path, monkeypatch):
    monkeypatch.setattr(sqlite, "_LONGEST_WAIT_SECONDS", 120.0)
    if request.param == "not told":
        monkeypatch.setattr(file_changes, "_watch", lambda _: None)
    with closing(open_database(lambda: sqlite3.connect(path))) as database:
        assert database.lock("a")
        yield database


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_commit_of_somebody_else_ends_the_wait(database, path, journal):
    with closing(sqlite3.connect(path, check_same_thread=False)) as other, NotedWaker() as waker:
        other.execute(f"PRAGMA journal_mode = {journal}")
        database.remember()

        def commit():
            wait_for(lambda: waker.waits)
            other.execute(STORE)
            other.commit()

        committing = threading.Thread(target=commit)
        committing.start()
        database.wait(waker, 120.0)
        committing.join()
        assert database.rows("SELECT id FROM pinlater_outbox") == [(1,)]


def test_the_waker_ends_the_wait(database):
    with NotedWaker() as waker:
        database.remember()
        stopping = threading.Thread(target=lambda: wait_for(lambda: waker.waits) and waker.set())
        stopping.start()
        database.wait(waker, 120.0)
        stopping.join()


def test_what_was_committed_before_the_wait_is_not_waited_for(database, path):
    database.remember()
    with closing(sqlite3.connect(path)) as other, Waker() as waker:
        other.execute(STORE)
        other.commit()
        database.wait(waker, 120.0)
