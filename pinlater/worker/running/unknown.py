"""Releases jobs that this worker cannot read, no attempt spent, until a worker knows them.

While a new version is rolled out, workers of the old one get jobs of classes that they do not know. So such a job is
not considered failed for days. The time since which no worker can read it is stored in its body, because the next
worker that gets it may be another one.
"""

from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Callable
from time import monotonic

from pinlater.errors import BodyInvalid
from pinlater.jobs.retry_delay import delay_ms
from pinlater.model.backoff import DEFAULT_BACKOFF
from pinlater.model.body_metadata import UnreadableMark, read_unreadable_mark, with_unreadable_mark
from pinlater.model.class_name import NO_CLASS, name_in
from pinlater.model.descriptor import queue_of
from pinlater.worker.claim_table.counters import UNREADABLE
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.failure_text import attempt_of, describe_unrun, origin_here
from pinlater.worker.session.outcome import Failure, ReleasedUnknown

_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 300.0
"""Bounds of the delay before another worker may get the job."""
_MOST_BODY_BYTES = 64 * 1024
"""Larger bodies get no mark: writing them again and again would cost more than the mark is worth."""
_MOST_REASONS = 4
"""Most reasons in the status of a job: each deployment in which it cannot be read may have another one."""
_MOST_NAME_CHARACTERS = 100
_MOST_NAMES = 16
"""Most class names whose last log line is remembered: clients may invent any number of names."""
_LOG_SECONDS = 60.0

log = logging.getLogger(__name__)


class UnknownJobPolicy:
    """Decides between the release and the failure of jobs that cannot be read.

    Args:
        give_up_seconds: how long such a job is released before it fails; None: each try is a failed attempt.
        chance: spreads the delays, so that jobs which came together do not come back together.
    """

    def __init__(self, give_up_seconds: float | None, chance: Callable[[], float] = random.random) -> None:
        self._give_up_seconds = give_up_seconds
        self._chance = chance
        self._log_at: dict[tuple[str, str], float] = {}

    def outcome(
        self, batch: DequeuedBatch, position: int, error: BodyInvalid, now_ms: int
    ) -> Failure | ReleasedUnknown:
        """Return the outcome of an unreadable job.

        Args:
            batch: the job's batch.
            position: its position there.
            error: why it cannot be read.
            now_ms: epoch milliseconds of the server's clock.
        """
        if self._give_up_seconds is None:
            return _failure(batch, position, error, now_ms, is_last=False)
        known = _known_since(batch, position)
        since_ms = now_ms if known is None else known
        age_seconds = max(now_ms - since_ms, 0) / 1000
        if age_seconds >= self._give_up_seconds:
            return _failure(batch, position, error, now_ms, is_last=True)
        until_ms = now_ms + int(release_seconds(age_seconds, self._chance) * 1000)
        body = batch.bodies[position]
        self._log_release(batch.descriptors[position], label_of(body), error)
        reasons, is_news = _with_reason(_valid_mark(batch, position), zlib.crc32(str(error).encode()))
        unread = UnreadableMark(since_ms, until_ms, reasons)
        marked = with_unreadable_mark(body, unread) if len(body) <= _MOST_BODY_BYTES else None
        here = origin_here(now_ms / 1000)
        status = f"[{here}] no worker knows it: {error}\n" if is_news and marked is not None else ""
        return ReleasedUnknown(marked, until_ms, status=status, name=label_of(body))

    def _log_release(self, descriptor: str, name: str, error: BodyInvalid) -> None:
        """Log why a job is released, at most once a minute for each class of a queue."""
        key = (queue_of(descriptor), name)
        now = monotonic()
        if now < self._log_at.get(key, 0.0):
            return
        if len(self._log_at) >= _MOST_NAMES:
            self._log_at.clear()
        self._log_at[key] = now + _LOG_SECONDS
        log.warning("%s released for a worker that knows its class, no attempt spent: %s", descriptor, error)


def release_seconds(age_seconds: float, chance: Callable[[], float]) -> float:
    """Return how long a released job waits: half the time since its first release, within bounds; spread by chance."""
    return min(max(age_seconds / 2, _SHORTEST_SECONDS), _LONGEST_SECONDS) * (0.75 + chance() / 2)


def label_of(body: bytes) -> str:
    """Return the class name in a body, if it is printable and short; otherwise a placeholder."""
    name = name_in(body)
    return name if name and len(name) <= _MOST_NAME_CHARACTERS and name.isprintable() else NO_CLASS


def _known_since(batch: DequeuedBatch, position: int) -> int | None:
    """Return when a job was first found unreadable, in epoch milliseconds; None if that is now.

    For a body that cannot have a mark, the time of its enqueue counts.
    """
    body = batch.bodies[position]
    if len(body) > _MOST_BODY_BYTES or with_unreadable_mark(body, UnreadableMark(0, 0)) is None:
        created_ms: int | None = batch.metadata[position].createdAtTimestampMillis
        return created_ms
    unread = _valid_mark(batch, position)
    return None if unread is None else unread.since_ms


def _valid_mark(batch: DequeuedBatch, position: int) -> UnreadableMark | None:
    """Return the mark in the body of a job; None if it has none.

    The mark counts only if the job became due at the time in the mark: otherwise somebody has run or retried it since.
    """
    unread = read_unreadable_mark(batch.bodies[position])
    due_ms = batch.metadata[position].runAfterTimestampMillis
    return unread if unread is not None and unread.until_ms == due_ms else None


def _with_reason(known: UnreadableMark | None, reason: int) -> tuple[tuple[int, ...], bool]:
    """Return the reasons of a job's next mark, and whether this reason is new in its status."""
    if known is None:
        return (reason,), True
    is_news = reason not in known.reasons and 0 < len(known.reasons) < _MOST_REASONS
    return (*known.reasons, reason) if is_news else known.reasons, is_news


def _failure(batch: DequeuedBatch, position: int, error: BodyInvalid, now_ms: int, *, is_last: bool) -> Failure:
    metadata = batch.metadata[position]
    log.error("%s cannot be run: %s", batch.descriptors[position], error)
    status = describe_unrun(metadata, error, is_last=is_last, at_seconds=now_ms / 1000)
    attempt = attempt_of(metadata)
    after_ms = None if is_last else delay_ms(DEFAULT_BACKOFF, attempt)
    return Failure(status, after_ms, UNREADABLE, label_of(batch.bodies[position]))
