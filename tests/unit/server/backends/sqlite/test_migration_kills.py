"""A server that is killed while it migrates a store, or whose disk is full: the next one finds it whole."""

import shutil
import sqlite3
import subprocess
import sys

import pytest

from pinlater.server.backends.sqlite.database import SCHEMA_VERSION, SqliteDatabase
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.unavailable import StoreUnavailable
from tests.unit.server.backends.sqlite.old_store import make_old_store

OPEN_AND_DIE = """
import os, signal, sys
from pathlib import Path
from pinlater.server.backends.sqlite.database import SqliteDatabase

folder, every = Path(sys.argv[1]), int(sys.argv[2])
connect = SqliteDatabase._connect

def is_killed(path, steps):
    def kill_later(name, **options):
        connection = connect(name, **options)
        left = iter(range(steps))
        connection.set_progress_handler(lambda: next(left, None) is None and os.kill(os.getpid(), signal.SIGKILL), 1)
        return connection
    child = os.fork()
    if not child:
        SqliteDatabase._connect = staticmethod(kill_later)
        SqliteDatabase(path).close()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

for number in range(10_000):
    path = folder / str(number) / "pinlater.db"
    path.parent.mkdir()
    for file in (folder / "old").iterdir():
        (path.parent / file.name).write_bytes(file.read_bytes())
    if not is_killed(path, number * every):
        break
"""
"""Kills itself after so many steps of SQLite's machine, each time on a copy of the old store, until one is through."""


def _make_old(path, version):
    old = make_old_store(path, version)
    old.execute("PRAGMA journal_mode = WAL")
    old.execute("PRAGMA synchronous = OFF")
    old.execute(QUERIES["insert_jobs"] + " (7, 1, 0, 1, 5, 5, 5, 2, 2, 'old', x'ff')")
    if version >= 5:
        rows = [(number.to_bytes(16, "big"), number, number) for number in range(2000)]
        old.executemany("INSERT INTO call_results (key, number, expires_at) VALUES (?, ?, ?)", rows)
    old.close()


def _content(connection):
    has_results = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'call_results'").fetchone()[0]
    results = connection.execute("SELECT key, number, expires_at FROM call_results").fetchall() if has_results else []
    return connection.execute("SELECT id, state, body FROM jobs").fetchall(), results


def _described(connection):
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


def _read(path, read):
    connection = sqlite3.connect(path)
    try:
        return read(connection)
    finally:
        connection.close()


@pytest.mark.parametrize(("version", "every"), [(1, 300), (SCHEMA_VERSION - 1, 15)])
def test_a_server_killed_while_it_migrates_leaves_the_store_whole(tmp_path, version, every):
    _make_old(tmp_path / "old" / "pinlater.db", version)
    old = _read(tmp_path / "old" / "pinlater.db", lambda store: (_described(store), _content(store)))
    SqliteDatabase(tmp_path / "new" / "pinlater.db").close()
    new = _read(tmp_path / "new" / "pinlater.db", _described)
    subprocess.run([sys.executable, "-c", OPEN_AND_DIE, str(tmp_path), str(every)], check=True, timeout=300)
    shutil.rmtree(tmp_path / "old")
    shutil.rmtree(tmp_path / "new")
    copies = [folder / "pinlater.db" for folder in tmp_path.iterdir()]
    assert len(copies) > 10
    for path in copies:
        assert _read(path, _described) in (old[0], new)
        SqliteDatabase(path).close()
        assert _read(path, lambda store: (_described(store), _content(store))) == (new, old[1])
        assert _read(path, lambda store: store.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]


def test_a_store_that_is_migrated_on_a_full_disk_stays_as_it_was_until_there_is_room(tmp_path, monkeypatch):
    path = tmp_path / "old" / "pinlater.db"
    _make_old(path, 1)
    old = _read(path, lambda store: (_described(store), _content(store)))
    most_pages = pages = _read(path, lambda store: store.execute("PRAGMA page_count").fetchone()[0])
    connect = SqliteDatabase._connect

    def connect_within(name, **options):
        connection = connect(name, **options)
        connection.execute(f"PRAGMA max_page_count = {most_pages}")
        return connection

    monkeypatch.setattr(SqliteDatabase, "_connect", staticmethod(connect_within))
    while True:
        try:
            SqliteDatabase(path).close()
        except StoreUnavailable:
            assert _read(path, lambda store: (_described(store), _content(store))) == old
            most_pages += 1
        else:
            break
    assert most_pages > pages + 10
    SqliteDatabase(tmp_path / "new" / "pinlater.db").close()
    new = _read(tmp_path / "new" / "pinlater.db", _described)
    assert _read(path, lambda store: (_described(store), _content(store))) == (new, old[1])
