"""A store file that is deleted or truncated under a running server: it says so, and takes no job that would be lost."""

import contextlib
import os
import shutil
import sqlite3

import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from pinlater.errors import UnknownError
from tests.support.server import ServerProcess, wait_for


@pytest.fixture
def server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    yield server
    if server.process.poll() is None:
        server.kill()


@pytest.mark.parametrize("harm", [os.unlink, lambda path: os.truncate(path, 0)], ids=["deleted", "truncated"])
def test_it_is_noticed_said_and_no_job_is_taken(server, harm):
    with Client(server.address, retries=0, connect_timeout=30) as client:
        client.create_queue("q")
        client.enqueue_jobs("q", [NewJob(b"x" * 1000)] * 10)
        wait_for(lambda: (server.data / "pinlater.db").stat().st_size > 0)
        assert server.page("/readyz") == (200, "ok\n")
        harm(server.data / "pinlater.db")
        wait_for(lambda: server.page("/readyz")[0] == 503)
        assert "while the server uses it" in server.page("/readyz")[1]
        assert "if it is a backup, first remove the -wal and -shm files" in server.page("/readyz")[1]
        with pytest.raises(UnknownError, match=r"nothing was changed: the store file .* while the server uses it"):
            client.enqueue_jobs("q", [NewJob(b"x")])
        assert server.log.count("no new jobs are taken") == 1


def test_a_backup_that_is_restored_as_the_guide_says_is_whole(server, tmp_path):
    database, backup = server.data / "pinlater.db", tmp_path / "backup.db"
    with Client(server.address, connect_timeout=30) as client:
        client.create_queue("q")
        client.enqueue_jobs("q", [NewJob(b"x" * 1000)] * 1000)
        with (
            contextlib.closing(sqlite3.connect(database)) as store,
            contextlib.closing(sqlite3.connect(backup)) as copy,
        ):
            store.backup(copy)
        client.enqueue_jobs("q", [NewJob(b"y" * 1000)] * 1000)
        client.delete_jobs("q", JobState.PENDING, limit=500)
    os.unlink(database)
    wait_for(lambda: server.page("/readyz")[0] == 503)
    assert server.stop() == 0
    assert (server.data / "pinlater.db-wal").stat().st_size > 0
    for file in server.data.glob("pinlater.db*"):
        file.unlink()
    shutil.copy(backup, database)
    server.start()
    with Client(server.address, connect_timeout=30) as client:
        assert client.count("q", JobState.PENDING) == 1000
    assert server.stop() == 0
    with contextlib.closing(sqlite3.connect(database)) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
