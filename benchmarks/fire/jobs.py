"""The jobs that ``pinlater-worker`` runs under faults; each records in a journal when it begins and when it ends."""

from __future__ import annotations

import functools
import os
import random
import time
from pathlib import Path

from benchmarks.fire.journal import Journal
from pinlater import Constant, Job, JobContext

JOURNALS = "PINLATER_FIRE_JOURNALS"
"""Environment variable with the folder of the journals."""

LEASE_SECONDS = 6.0
FAILING_SHARE = 0.08
LONG_SHARE = 0.01
LONG_SECONDS = 1.5 * LEASE_SECONDS
SHORT_SECONDS = 0.03


class OnFireError(Exception):
    """Ends an attempt that is meant to fail."""


class Plain(Job, queue="worker_plain", attempts=1000, backoff=Constant(0)):
    """Runs for a moment, sometimes for longer than its lease."""

    name: str

    def run(self, context: JobContext) -> None:
        """Run."""
        _run(self.name, context, long_share=LONG_SHARE)


class Ordered(Job, queue="worker_ordered", attempts=1000, backoff=Constant(0)):
    """Runs for a moment."""

    name: str

    def run(self, context: JobContext) -> None:
        """Run."""
        _run(self.name, context)


class Limited(Job, queue="worker_limited", attempts=1000, backoff=Constant(0)):
    """Runs for a moment."""

    name: str

    def run(self, context: JobContext) -> None:
        """Run."""
        _run(self.name, context)


@functools.cache
def _journal(pid: int) -> Journal:
    return Journal(Path(os.environ[JOURNALS]), f"job-process-{pid}")


def _run(name: str, context: JobContext, *, long_share: float = 0.0) -> None:
    journal, run = _journal(os.getpid()), time.monotonic_ns()
    journal.write("run", run=run, job=context.descriptor, name=name, attempt=context.attempt)
    chance = random.Random(f"{name} {context.attempt}")
    is_long = chance.random() < long_share
    time.sleep(LONG_SECONDS if is_long else chance.uniform(0, SHORT_SECONDS))
    is_success = chance.random() >= FAILING_SHARE
    journal.write("done", run=run, job=context.descriptor, is_success=is_success)
    if not is_success:
        raise OnFireError
