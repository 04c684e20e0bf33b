"""Kill jobs at one point after another, to test that they always reach the same result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from pinlater.jobs.job import Job
from pinlater.model.attempts import ClaimedJob
from pinlater.protocol.messages import PinLaterJob
from pinlater.testing.attempts import Ending, Outcome
from pinlater.testing.inline import InlineClient


def killed_everywhere(*kinds: type[Job]) -> Iterator[DoomedClient]:
    """Yield one client after another, each of which kills the process of a job once, at a different point.

    ::

        def test_a_report_is_announced_whatever_happens():
            for client in killed_everywhere(PublishReport):
                announced.clear()
                client.enqueue(PublishReport(month="May"))
                client.assert_succeeded()
                assert set(announced) == {"May"}, client.killed_at

    The points are all those at which a kill makes a difference: before and after each save of a step or a checkpoint,
    before and after each enqueue of follow-ups and called jobs, and at the end of each attempt, before its ack. The
    last client kills nothing. A kill spends an attempt, so the job needs one more than it would otherwise. Apart from
    that, the clients are like that of ``run_inline``. The kill is simulated by an exception, so the job's ``finally``
    blocks run, which they would not in a real kill.

    Args:
        kinds: job classes that may be enqueued.

    Raises:
        ConfigError: two classes share a name.
    """
    for point in count(1):
        with DoomedClient(kinds, point) as client:
            yield client
            if client.killed_at is None:
                return


class _Killed(BaseException):
    """Simulates SIGKILL."""


class DoomedClient(InlineClient):
    """Client of ``killed_everywhere``: runs jobs inline and kills their process once.

    Attributes:
        killed_at: where it killed the process, such as ``before save 2``; None if it did not.

    Args:
        kinds: job classes that may be enqueued.
        point: number of the point at which it kills, 1 for the first.
    """

    def __init__(self, kinds: Iterable[type[Job]], point: int) -> None:
        super().__init__(kinds)
        self.killed_at: str | None = None
        self._points_left = point
        self._saves = self._enqueues = 0
        self._is_dead = False

    def _save(self, claimed: ClaimedJob, body: bytes, attempts: int | None) -> None:
        self._saves += 1
        number = self._saves
        self._pass(f"before save {number}")
        super()._save(claimed, body, attempts)
        self._pass(f"after save {number}")

    def _enqueue_once(self, queue: str, jobs: list[PinLaterJob], key: bytes) -> list[str]:
        self._enqueues += 1
        number = self._enqueues
        self._pass(f"before enqueue {number}")
        stored = super()._enqueue_once(queue, jobs, key)
        self._pass(f"after enqueue {number}")
        return stored

    def _run_attempt(self, claimed: ClaimedJob) -> Outcome:
        try:
            outcome = super()._run_attempt(claimed)
            self._pass(f"at the end of attempt {outcome.attempt}")
        except BaseException:
            if not self._is_dead:
                raise
        else:
            return outcome
        self._is_dead = False  # the next attempt has a new process
        job = self._jobs[claimed.descriptor]
        attempt, allowed = job.attempts_allowed - job.attempts_remaining + 1, job.attempts_allowed
        status = f"its process was killed {self.killed_at}\n"
        return Outcome(None, claimed.descriptor, attempt, allowed, Ending.FAILED, status=status)

    def _pass(self, where: str) -> None:
        self._points_left -= 1
        if self._points_left == 0:
            self.killed_at, self._is_dead = where, True
        if self._is_dead:  # raised again if the job has caught it
            raise _Killed
