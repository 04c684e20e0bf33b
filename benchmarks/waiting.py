"""Jobs that wait for events in a store while something else is measured."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks.programs import Server
from pinlater import Client
from pinlater.client import Checkpoint, NewJob
from pinlater.model.messages import MessageWait

QUEUE = "waiting"
_AT_ONCE = 1000
_FIRST = 1000
"""Jobs that wait by calls; the others of a file are copies of theirs."""
_FAR_MS = 32_503_680_000_000
_WAITS = (MessageWait("event/approval", 1),)
_OF_A_FILE = "pinlater.db"


def _let_wait(client: Client, jobs: int) -> None:
    client.enqueue_jobs(QUEUE, [NewJob(b'{"job":"Approve","number":%d}' % number) for number in range(jobs)])
    while jobs:
        claimed = client.dequeue_jobs(QUEUE, jobs)
        client.checkpoint(
            QUEUE,
            [
                Checkpoint(job.descriptor, job.claim, move_to_pending=True, run_after_ms=_FAR_MS, waits_for=_WAITS)
                for job in claimed
            ],
        )
        jobs -= len(claimed)


def _multiply(connection: sqlite3.Connection, first: int, jobs: int) -> None:
    """Copy the first jobs of a file until there are so many."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(jobs)")]
    others = ", ".join(column for column in columns if column != "id")
    connection.execute("PRAGMA journal_mode = WAL")
    [(lowest,)] = connection.execute("SELECT min(id) FROM jobs")
    for more in range(first, jobs, first):
        connection.execute(
            f"INSERT INTO jobs (id, {others}) SELECT id + ?1, {others} FROM jobs WHERE id < ?2",
            (more, lowest + min(first, jobs - more)),
        )
        connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class FilledStore:
    """Jobs that wait, in a file that is copied for each server: to fill one takes longer than most measurements.

    Args:
        folder: where it is kept.
        jobs: that wait in it.
    """

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder = folder
        self._jobs = jobs

    def copy_to(self, folder: Path) -> None:
        """Copy the file into the folder of a server that has not started yet."""
        if not self._folder.exists():
            self._folder.mkdir()
            first = min(self._jobs, _FIRST)
            with Server(self._folder, []) as server:
                self._let_wait(server, first)
            with closing(sqlite3.connect(self._folder / _OF_A_FILE)) as connection:
                _multiply(connection, first, self._jobs)
        shutil.copy(self._folder / _OF_A_FILE, folder / _OF_A_FILE)

    def fill(self, server: Server) -> None:
        """Let the jobs wait at a server, each as one that a worker has given back."""
        self._let_wait(server, self._jobs)

    @staticmethod
    def _let_wait(server: Server, jobs: int) -> None:
        server.await_answer()
        with server.client() as client:
            client.create_queue(QUEUE)
            for start in range(0, jobs, _AT_ONCE):
                _let_wait(client, min(_AT_ONCE, jobs - start))
