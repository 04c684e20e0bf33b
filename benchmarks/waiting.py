"""Jobs that wait for events in a store while something else is measured."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.programs import Server
from benchmarks.stores import Stores
from pinlater import Client
from pinlater.client import Checkpoint, NewJob
from pinlater.model.messages import MessageWait

QUEUE = "waiting"
_AT_ONCE = 1000
_FIRST = 1000
"""Maximum number of jobs that are made to wait by calls; the others are copied if the store can do that."""

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


class FilledStore:
    """Jobs that wait for events. The first ones are made by calls; the others are copies, if the store can make them.

    A file is filled once and copied for each server, since filling takes longer than most measurements.

    Args:
        folder: folder of the filled file.
        jobs: number of waiting jobs.
    """

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder = folder
        self._jobs = jobs

    def copy_to(self, folder: Path, stores: Stores) -> None:
        """Copy the file into the folder of a server that has not started yet."""
        if not self._folder.exists():
            self._folder.mkdir()
            first = min(self._jobs, _FIRST)
            with Server(self._folder, []) as server:
                self._let_wait(server, first)
            stores.multiply(self._folder, first, self._jobs)
        shutil.copy(self._folder / _OF_A_FILE, folder / _OF_A_FILE)

    def fill(self, server: Server, folder: Path, stores: Stores, shards: int = 1) -> None:
        """Make the jobs wait at a server whose store is in a folder; with several shards, all of them by calls."""
        if shards > 1:
            self._let_wait(server, self._jobs)
            return
        first = min(self._jobs, _FIRST)
        self._let_wait(server, first)
        self._let_wait(server, self._jobs - stores.multiply(folder, first, self._jobs))

    @staticmethod
    def _let_wait(server: Server, jobs: int) -> None:
        server.await_answer()
        with server.client() as client:
            client.create_queue(QUEUE)
            for start in range(0, jobs, _AT_ONCE):
                _let_wait(client, min(_AT_ONCE, jobs - start))
