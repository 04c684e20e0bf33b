"""The file of the SQLite store: who may open it, and how it is opened."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import pinlater
from pinlater.errors import ConfigError
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.sqlite import database as store_module
from pinlater.server.backends.sqlite.database import SCHEMA_VERSION, SqliteDatabase
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.backends.unavailable import StoreUnavailable
from tests.unit.server.backends.sqlite.old_store import make_old_store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "pinlater.db"


@pytest.fixture
def no_patience(monkeypatch):
    monkeypatch.setattr(store_module, "_LOCK_PATIENCE_SECONDS", 0.0)


def _make(path, *statements):
    """Make a database that is not ours."""
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_missing_folders_are_made(path):
    SqliteDatabase(path).close()
    assert path.exists()


def test_an_answer_means_that_it_is_on_disk(path):
    store = SqliteDatabase(path)
    writer = store.writer()
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert writer.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    writer.close()
    store.close()


def test_normal_is_a_choice(path):
    store = SqliteDatabase(path, "NORMAL")
    writer = store.writer()
    assert writer.execute("PRAGMA synchronous").fetchone() == (1,)
    writer.close()
    store.close()


def test_readers_cannot_write(path):
    store = SqliteDatabase(path)
    store.writer().close()
    reader = store.reader()
    with pytest.raises(sqlite3.OperationalError):
        reader.execute("DELETE FROM jobs")
    reader.close()
    store.close()


def test_a_path_with_characters_that_mean_something_in_an_uri(tmp_path):
    store = SqliteDatabase(tmp_path / "100% ?mode=memory#x" / "pinlater.db")
    writer = store.writer()
    writer.execute("INSERT INTO queues (name, created_at) VALUES ('q', 1)")
    writer.close()
    reader = store.reader()
    assert reader.execute("SELECT name FROM queues").fetchall() == [("q",)]
    reader.close()
    store.close()


def test_a_second_server_is_refused_and_told_who_holds_the_store(path, no_patience, caplog):
    first = SqliteDatabase(path)
    assert caplog.messages == []
    with pytest.raises(ConfigError, match=rf"held by another pinlater-server \(process {os.getpid()}\).*--data-dir"):
        SqliteDatabase(path)
    assert [message.split(";")[0] for message in caplog.messages] == [f"process {os.getpid()} holds the store {path}"]
    first.close()
    SqliteDatabase(path).close()


def test_the_lock_goes_with_its_process(path):
    program = "from pathlib import Path; from pinlater.server.backends.sqlite.database import SqliteDatabase; "
    program += f"store = SqliteDatabase(Path({str(path)!r})); print('open', flush=True); input()"
    root = Path(pinlater.__file__).parents[1]
    holder = subprocess.Popen([sys.executable, "-c", program], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"open\n"
        holder.kill()
        SqliteDatabase(path).close()  # waits for the death of a server that was just killed
    finally:
        holder.kill()
        holder.communicate()


def test_a_database_of_something_else_is_refused_and_not_touched(path):
    _make(path, "CREATE TABLE photos (id INTEGER)")
    before = path.read_bytes()
    for _ in range(2):  # a refusal leaves no lock behind
        with pytest.raises(ConfigError, match="database of something else"):
            SqliteDatabase(path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_version_is_refused_and_not_touched(path):
    _make(path, "CREATE TABLE jobs (id INTEGER)", f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=f"version {SCHEMA_VERSION + 1}, this program knows {SCHEMA_VERSION}"):
        SqliteDatabase(path)
    assert path.read_bytes() == before


def _describe(path):
    store = SqliteDatabase(path)
    connection = store.writer()
    described = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    store.close()
    return version, described


def test_a_store_of_version_1_is_brought_to_the_present_one(path, caplog):
    caplog.set_level("INFO")
    old = make_old_store(path, 1)
    insert = QUERIES["insert_jobs"] + " (?1, 1, ?2, 1, 5, 5, 5, 2, 2, 'old', ?3)"
    for local_id, state in enumerate((0, 1, 2, 3), 1):
        old.execute(insert, (local_id, state, b"\xff" * 10_000))
    before = old.execute("SELECT * FROM jobs").fetchall()
    old.close()
    assert _describe(path) == _describe(path.parent / "new" / "pinlater.db")
    assert _describe(path)[0] == SCHEMA_VERSION
    assert f"the store {path} is upgraded from version 1 to {SCHEMA_VERSION}" in caplog.text
    new = sqlite3.connect(path)
    assert new.execute("SELECT * FROM jobs").fetchall() == [(*row, None, None, None, 0, *[None] * 8) for row in before]
    assert new.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    new.close()


def test_an_upgrade_reads_all_jobs_five_times(tmp_path, monkeypatch):
    """For four new indexes, and to find jobs with parents. Nobody is answered meanwhile."""
    connect, taken = SqliteDatabase._connect, 0

    def count_steps(name, **options):
        def step():
            nonlocal taken
            taken += 1

        connection = connect(name, **options)
        connection.set_progress_handler(step, 1)
        return connection

    def steps_with(jobs):
        nonlocal taken
        path = tmp_path / str(jobs) / "pinlater.db"
        old = make_old_store(path, 5)
        old.execute("BEGIN")
        old.executemany(QUERIES["insert_jobs"] + " (?1, 1, 0, 1, 5, 5, 5, 2, 2, '', '')", [(n,) for n in range(jobs)])
        old.execute("COMMIT")
        old.close()
        taken = 0
        SqliteDatabase(path).close()
        return taken

    monkeypatch.setattr(SqliteDatabase, "_connect", staticmethod(count_steps))
    for_each_job_read = 3
    assert (steps_with(2000) - steps_with(1000)) / 1000 < 5.5 * for_each_job_read


def test_children_of_an_older_store_have_their_parents(path):
    old = make_old_store(path, 15)
    told = {2: (9, "crop", 5), 3: (9, "crop", 6), 4: (9, "crop", 8), 6: (9, "crop", 10), 7: (9, "size", 11)}
    told |= {number: (10, "size", number + 4) for number in range(8, 700)}
    parents = {number: (f"emails:s1:p1:{parent}", *rest) for number, (parent, *rest) in told.items()}
    for number in range(1, 800):
        state = 2 if number < 4 or 500 <= number < 750 else 0
        columns = (told[number][0], json.dumps(parents[number])) if number in told else (None, None)
        old.execute(
            "INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at, attempts_allowed,"
            " attempts_remaining, body, parent_id, parent, open_parent_id, is_cancelled)"
            " VALUES (?1, 1, ?2, 1, 5, 5, 5, 2, 2, '', ?3, ?4, iif(?2 < 2, ?3, NULL), iif(?1 = 7, 2, 0))",
            (number, state, *columns),
        )
    old.close()
    store = SqliteDatabase(path)
    connection = store.writer()
    found = {
        number: connection.execute(QUERIES["lookup_job"], (1, number, 1, 0, False)).fetchone()[16]
        for number in range(1, 800)
    }
    assert {number: tuple(json.loads(parent)) for number, parent in found.items() if parent} == parents
    families = connection.execute("SELECT first_id, last_id, is_open FROM families ORDER BY last_id").fetchall()
    assert families[:4] == [(2, 3, 0), (4, 4, 1), (6, 6, 1), (7, 7, 1)]
    assert families[4:] == [(8, 249, 1), (250, 499, 1), (500, 699, 0)]
    assert sorted(connection.execute(QUERIES["children_to_cancel"], ("[9]", 10))) == [
        ("emails", 1, number) for number in (4, 6, 7)
    ]
    assert connection.execute("SELECT count(parent), count(open_parent_id) FROM jobs").fetchall() == [(0, 0)]
    connection.close()
    store.close()


def test_unfinished_children_of_an_older_store_are_found_by_their_parents(path):
    old = make_old_store(path, 14)
    insert = QUERIES["insert_jobs"] + " (?1, 1, ?2, 1, 5, 5, 5, 2, 2, '', ?3)"
    for local_id, state in enumerate((0, 1, 2, 3, 1), 1):
        old.execute(insert, (local_id, state, b""))
    old.execute("UPDATE jobs SET parent_id = 9, parent = json_array('x:s1:p1:9', 'call', id), is_cancelled = id = 5")
    old.execute("INSERT INTO messages (job_id, name, number, id, kind, payload) VALUES (9, 'call', 1, '0', 1, x'31')")
    old.close()
    store = SqliteDatabase(path)
    connection = store.writer()
    found = connection.execute(QUERIES["children_to_cancel"], ("[9]", 10)).fetchall()
    assert found == [("emails", 1, 1), ("emails", 1, 2)]
    assert connection.execute("SELECT number, id, sizes FROM messages").fetchall() == [(1, "0", None)]
    connection.close()
    store.close()


def test_a_file_that_is_no_database_is_refused_and_not_touched(path):
    path.parent.mkdir()
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(ConfigError, match=r"cannot be used.*not a database; if it was a store, restore a backup"):
        SqliteDatabase(path)
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_a_damaged_store_is_refused_with_advice(path):
    SqliteDatabase(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))  # what is in the tables, but not their names
    with pytest.raises(ConfigError, match=r"cannot be used: .* malformed; remove it with the -wal and -shm files"):
        SqliteStore(path.parent, StoreOptions(1, now_ms=lambda: 0))
    path.write_bytes(whole)
    SqliteDatabase(path).close()  # as the first one has left neither a lock nor a connection


def test_a_full_disk_is_no_wrong_setting_and_leaves_no_lock(path, monkeypatch):
    def migrate(_):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(SqliteDatabase, "_migrate", migrate)
        with pytest.raises(StoreUnavailable, match="may be full"):
            SqliteDatabase(path)
    SqliteDatabase(path).close()


def test_a_disk_that_has_become_read_only_is_no_wrong_setting(path, monkeypatch):
    def lock(_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_lock", lock)
        with pytest.raises(ConfigError, match="Read-only file system; choose another place"):
            SqliteDatabase(path)
    SqliteDatabase(path).close()
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_lock", lock)
        with pytest.raises(StoreUnavailable, match="Read-only file system; its disk may be full or broken"):
            SqliteDatabase(path)


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be used.*--data-dir"):
        SqliteDatabase(tmp_path / "file" / "pinlater.db")


@pytest.fixture
def unprivileged():
    """Whoever runs this, be somebody who may not write everywhere."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    yield
    if was_root:
        os.seteuid(0)


@pytest.mark.usefixtures("unprivileged")
@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_folder_without_permission_is_refused(mode):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        data = Path(folder, "data")
        data.mkdir(mode=mode)
        with pytest.raises(ConfigError, match=r"cannot be used.*Permission denied"):
            SqliteDatabase(data / "pinlater.db")
        data.chmod(0o700)


def test_a_network_file_system_is_refused(path, monkeypatch):
    monkeypatch.setattr(store_module, "file_system_of", lambda _: "nfs4")
    with pytest.raises(ConfigError, match="network file system"):
        SqliteDatabase(path)


def test_nobody_else_on_the_machine_can_read_the_jobs(tmp_path):
    before = os.umask(0o022)
    try:
        store = SqliteDatabase(tmp_path / "data" / "pinlater.db")
        writer = store.writer()
        writer.execute("CREATE TABLE written (something)")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
        writer.close()
        store.close()
    finally:
        os.umask(before)
    assert {"pinlater.db", "pinlater.db-wal", "pinlater.db-shm"} <= modes.keys()
    assert set(modes.values()) == {0o600}
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_who_may_read_a_store_that_is_there_is_left_as_it_is(tmp_path):
    path = tmp_path / "pinlater.db"
    SqliteDatabase(path).close()
    path.chmod(0o640)
    SqliteDatabase(path).close()
    assert path.stat().st_mode & 0o777 == 0o640
