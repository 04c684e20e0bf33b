"""Which transactions the event loop carries out itself: small ones, while the disk is fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.sqlite.ack import SqliteAckRequest, ack_jobs
from pinlater.server.backends.sqlite.checkpoint import SqliteCheckpointRequest, checkpoint
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs
from pinlater.server.backends.sqlite.enqueue import EnqueueRequest, enqueue, enqueue_keyed
from pinlater.server.backends.sqlite.messages import SendRequest, send

SLOW_SECONDS = 0.01
"""A commit in the event loop that takes longer has blocked the loop for too long."""

STALL_SECONDS = 0.25
"""The same for a commit in the thread, which may carry many requests and copy the log to the database."""

PAUSE_FACTOR = 1000
"""After a slow commit, the thread takes over for this many times as long: the loop loses a thousandth of its time."""

FAILURE_PAUSE_SECONDS = 10.0

MAX_RUN = 100
"""After this many commits in the loop, the thread carries out one: only there is the log copied to the database."""

MAX_REQUESTS = 2
"""Most requests of one turn of the loop that share a commit in it, such as an enqueue and the dequeue that it wakes."""

_MAX_JOBS = 10
_MAX_BYTES = 16 << 10


class InlineCommits:
    """Decides by the previous commits whether the next one may run in the event loop.

    So a disk that stalls blocks the loop only once; after that, all commits run in the thread for a while.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._run = MAX_RUN  # the first commit runs in the thread, to show how fast the disk is
        self._paused_until = clock()

    def are_allowed(self) -> bool:
        """Return whether the last commit was fast, none has stalled lately, and no commit in the thread is due."""
        return self._run < MAX_RUN and self._clock() >= self._paused_until

    def record(self, stats: CommitStats, *, is_inline: bool) -> None:
        """Record a commit, or a failed attempt at one."""
        is_slow = stats.seconds > SLOW_SECONDS
        if is_inline:
            self._run += 1
        else:
            self._run = MAX_RUN if is_slow or stats.requests > MAX_REQUESTS else 0
        if stats.is_failed:
            self._pause(FAILURE_PAUSE_SECONDS)
        if stats.seconds > STALL_SECONDS or (is_slow and is_inline):
            self._pause(PAUSE_FACTOR * stats.seconds)

    def _pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock() + seconds)


def _is_small_enqueue(request: EnqueueRequest) -> bool:
    if len(request.jobs) != 1:
        return False
    [job] = request.jobs
    return len(job.body) <= _MAX_BYTES and job.parent is None


def _is_small_claim(request: SqliteClaimRequest) -> bool:
    return request.limit <= _MAX_JOBS and request.max_running is None


def _is_small_ack(request: SqliteAckRequest) -> bool:
    if len(request.succeeded) + len(request.failed) > _MAX_JOBS:
        return False
    return sum(len(ack.result) for ack in request.succeeded if ack.result) <= _MAX_BYTES


def _is_small_checkpoint(request: SqliteCheckpointRequest) -> bool:
    if len(request.checkpoints) != 1:
        return False
    [item] = request.checkpoints
    if item.drops or len(item.keeps) > _MAX_JOBS:  # a name to drop may have thousands of messages
        return False
    return len(item.body or b"") + sum(len(message.payload) for message in item.keeps) <= _MAX_BYTES


def _is_small_message(request: SendRequest) -> bool:
    return len(request.message.payload) <= _MAX_BYTES


SMALL: Mapping[Callable[..., Any], Callable[[Any], bool]] = {
    enqueue: _is_small_enqueue,
    enqueue_keyed: _is_small_enqueue,
    claim_jobs: _is_small_claim,
    ack_jobs: _is_small_ack,
    checkpoint: _is_small_checkpoint,
    send: _is_small_message,
}
"""By verb, which requests may be carried out in the event loop; those of other verbs may not."""
