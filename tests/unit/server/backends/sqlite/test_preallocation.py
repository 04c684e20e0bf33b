"""The write-ahead log is filled up with zeros at the start: they hold nothing, and nobody needs them."""

import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import pinlater
from pinlater.server.backends.sqlite import preallocation
from pinlater.server.backends.sqlite.database import SqliteDatabase
from pinlater.server.backends.sqlite.preallocation import PREALLOCATED_BYTES, preallocate

COMMIT_UNTIL_KILLED = """
import os, signal, sys
from pathlib import Path
from pinlater.server.backends.sqlite.database import SqliteDatabase

connection = SqliteDatabase(Path(sys.argv[1])).writer()
for name in sys.argv[2:]:
    connection.execute("INSERT INTO queues (name, created_at) VALUES (?, 1)", (name,))
connection.execute("BEGIN")
connection.execute("INSERT INTO queues (name, created_at) VALUES ('never committed', 1)")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "pinlater.db"


def log_of(path):
    return path.with_name(path.name + "-wal")


def commit_and_die(path, *names):
    """Commit a row for each name in a server's process, which is then killed."""
    program = [sys.executable, "-c", COMMIT_UNTIL_KILLED, str(path), *names]
    ended = subprocess.run(program, cwd=Path(pinlater.__file__).parents[1], timeout=60, check=False)
    assert ended.returncode == -9


@contextlib.contextmanager
def opened(path, synchronous="FULL"):
    database = SqliteDatabase(path, synchronous)
    connection = database.writer()
    try:
        yield connection
    finally:
        connection.close()
        database.close()


def names_in(connection):
    return [name for (name,) in connection.execute("SELECT name FROM queues ORDER BY id")]


@contextlib.contextmanager
def file_size_limit(most_bytes):
    """As on a full disk, writes fail that would make a file larger."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_log_has_its_full_size_from_the_start(path, caplog):
    with opened(path) as connection:
        assert log_of(path).stat().st_size == PREALLOCATED_BYTES
        assert log_of(path).stat().st_blocks * 512 >= PREALLOCATED_BYTES  # written, not only reserved
        for number in range(50):
            connection.execute("INSERT INTO queues (name, created_at) VALUES (?, 1)", (str(number),))
        assert log_of(path).stat().st_size == PREALLOCATED_BYTES
    assert caplog.messages == []


def test_it_has_room_until_it_is_copied_to_the_database(path):
    with opened(path) as connection:
        connection.execute("CREATE TABLE blobs (body BLOB)")
        for _ in range(150):
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO blobs VALUES (?)", [(os.urandom(10_000),)] * 10)
            connection.execute("COMMIT")
        assert path.stat().st_size > 1_000_000
        assert log_of(path).stat().st_size == PREALLOCATED_BYTES


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_where_no_commit_waits_for_the_disk_nothing_is_preallocated(path, synchronous):
    with opened(path, synchronous) as connection:
        assert names_in(connection) == []
        assert log_of(path).stat().st_size < PREALLOCATED_BYTES


def test_what_was_committed_before_a_kill_is_there_and_nothing_else(path):
    names = [f"queue {number}" for number in range(20)]
    commit_and_die(path, *names)
    assert log_of(path).stat().st_size == PREALLOCATED_BYTES
    commit_and_die(path, "again")
    with opened(path) as connection:
        assert names_in(connection) == [*names, "again"]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_kill_leaves_the_same_with_and_without_zeros(path, tmp_path):
    commit_and_die(path, "a", "b", "c")
    bare = tmp_path / "bare" / path.name
    shutil.copytree(path.parent, bare.parent)
    content = log_of(bare).read_bytes().rstrip(b"\0")
    log_of(bare).write_bytes(content + bytes(-(len(content) - 32) % 4120))
    with opened(path) as connection, opened(bare) as other:
        assert list(connection.iterdump()) == list(other.iterdump())
        assert names_in(connection) == ["a", "b", "c"]


def test_zeros_are_written_behind_what_is_in_the_log(path):
    commit_and_die(path, "a", "b")
    content = log_of(path).read_bytes().rstrip(b"\0")
    os.truncate(log_of(path), len(content) + 100)
    assert preallocate(log_of(path)) is True
    assert log_of(path).read_bytes().rstrip(b"\0") == content
    assert log_of(path).stat().st_size == PREALLOCATED_BYTES
    with opened(path) as connection:
        assert names_in(connection) == ["a", "b"]


def test_a_backup_and_another_program_see_the_rows_only(path, tmp_path):
    with opened(path) as connection:
        connection.execute("INSERT INTO queues (name, created_at) VALUES ('q', 1)")
        with contextlib.closing(sqlite3.connect(tmp_path / "backup.db")) as backup:
            connection.backup(backup)
            assert names_in(backup) == ["q"]
        shutil.copytree(path.parent, tmp_path / "copy")
        with contextlib.closing(sqlite3.connect(tmp_path / "copy" / path.name)) as copy:
            assert names_in(copy) == ["q"]
    assert (tmp_path / "backup.db").stat().st_size < 1 << 20


def test_a_store_opens_without_it_while_the_disk_is_full(path, caplog):
    with opened(path, "OFF") as connection:
        connection.execute("INSERT INTO queues (name, created_at) VALUES ('q', 1)")
    with file_size_limit(1 << 20), opened(path) as connection:
        assert log_of(path).stat().st_size < 1 << 20  # no part of it stays
        assert names_in(connection) == ["q"]
        connection.execute("INSERT INTO queues (name, created_at) VALUES ('r', 1)")
    (said,) = caplog.messages
    assert "not preallocated" in said
    assert "too large" in said


def test_the_last_space_of_a_disk_is_left_for_jobs(path, monkeypatch, caplog):
    class AlmostFull:
        f_bavail, f_frsize = 40_000, 4096

    monkeypatch.setattr(preallocation.os, "fstatvfs", lambda _: AlmostFull)
    with opened(path):
        assert log_of(path).stat().st_size < 1 << 20
    assert len(caplog.messages) == 1
    assert "little space is left" in caplog.messages[0]


def test_a_log_that_is_not_there_is_no_failure(tmp_path, caplog):
    assert preallocate(tmp_path / "pinlater.db-wal") is False
    assert "not preallocated" in caplog.messages[0]
