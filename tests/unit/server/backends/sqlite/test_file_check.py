"""Store files that somebody deletes, replaces or cuts off while they are in use, and what is done to them rightly."""

import os
import sqlite3
import subprocess
import sys

import pytest

from pinlater.server.backends.sqlite.file_check import FileCheck

IS_LOCKED = 7

ASK_FOR_THE_LOCK = f"""
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit({IS_LOCKED})
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pinlater.db"


@pytest.fixture
def check(path):
    check = FileCheck(path)
    yield check
    check.close()


@pytest.fixture
def writer(path, check):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (body BLOB)")
    store(connection)
    check.look()
    yield connection
    connection.close()


def store(connection):
    connection.executemany("INSERT INTO t VALUES (?)", [(os.urandom(3000),)] * 20)
    connection.execute("PRAGMA wal_checkpoint")


def test_whole_files_are_in_order_while_they_grow(writer, check):
    for _ in range(3):
        store(writer)
        assert check.look() is None


@pytest.mark.parametrize("statement", ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"])
def test_files_may_be_made_smaller_by_sqlite_itself(writer, check, path, statement):
    writer.execute("DELETE FROM t")
    before = path.stat().st_size
    writer.execute(statement)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < before or statement != "VACUUM"
    assert check.look() is None


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_deleted_file_is_noticed_until_it_is_back(writer, check, path, suffix):
    file = path.with_name(path.name + suffix)
    file.rename(path.with_name("elsewhere"))
    assert f"{file.name} was deleted" in check.look()
    path.with_name("elsewhere").rename(file)
    assert check.look() is None


def test_another_file_in_its_place_is_noticed(writer, check, path):
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    assert "replaced" in check.look()


@pytest.mark.parametrize("left", [0, 10, 4096, 20_000])
def test_a_truncated_file_is_noticed_for_good(writer, check, path, left):
    size = path.stat().st_size
    os.truncate(path, left)
    assert "was truncated" in check.look()
    os.truncate(path, size)
    assert "was truncated" in check.look()


def test_sqlite_locks_survive_the_health_checks(writer, check, path):
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("BEGIN IMMEDIATE")
    check.look()
    asked = subprocess.run([sys.executable, "-c", ASK_FOR_THE_LOCK, str(path)], timeout=60, check=False)
    assert asked.returncode == IS_LOCKED
