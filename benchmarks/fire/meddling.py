"""Changes to jobs that wait or run, as operators make them."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence

from benchmarks.fire.journal import Journal
from pinlater import Client, JobState
from pinlater.errors import PinLaterError

_REMEMBERED = 20
_SHARE = 0.5
_ACTIONS = ("cancel", "delete", "retry", "run now", "schedule")


class Meddler:
    """Cancels, deletes, reschedules and retries some jobs of a queue.

    Args:
        queue: the queue.
        client: makes the calls.
        journal: where they are noted, before they are made.
        chance: decides about them.
    """

    def __init__(self, queue: str, client: Client, journal: Journal, chance: random.Random) -> None:
        self._queue = queue
        self._client = client
        self._journal = journal
        self._chance = chance
        self._recent: deque[str] = deque(maxlen=_REMEMBERED)

    def meddle_with(self, jobs: Sequence[str]) -> None:
        """Perhaps change one of these jobs, or of those of the calls before."""
        self._recent.extend(jobs)
        if self._chance.random() >= _SHARE:
            return
        action, job = self._chance.choice(_ACTIONS), self._chance.choice(self._recent)
        try:
            jobs = self._failed() if action == "retry" else [job]
            self._journal.write("meddle", action=action, jobs=jobs)
            self._do(action, jobs)
        except PinLaterError as error:
            self._journal.write("meddled in vain", error=repr(error))

    def _failed(self) -> list[str]:
        found = self._client.lookup(self._recent)
        return [job for job, info in found.items() if info.state is JobState.FAILED]

    def _do(self, action: str, jobs: Sequence[str]) -> None:
        match action:
            case "cancel":
                self._client.cancel_these(self._queue, jobs)
            case "delete":
                self._client.delete_these(self._queue, jobs, JobState.PENDING)
            case "retry":
                self._client.retry_these(self._queue, jobs, attempts=2)
            case "run now":
                self._client.run_now(self._queue, jobs)
            case _:
                due = time.time() + self._chance.uniform(0, 1)
                self._client.schedule(self._queue, jobs, int(due * 1000))
