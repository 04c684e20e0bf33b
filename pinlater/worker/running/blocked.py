"""Lets a blocked job wait, without spending an attempt, until others have removed what blocks it.

A job is blocked if its recorded steps do not fit the code of this worker, if it enqueues others in a queue that nobody
has created, or if the shard of those is away. A deployment, or the return of the shard, lets it go on. So it is tried
again and again, and fails only after days.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import PinLaterError, QueueNotFound, StepMismatch
from pinlater.model.body_metadata import MismatchMark
from pinlater.worker.claim_table.counters import MISMATCH, NO_QUEUE
from pinlater.worker.running.unknown import release_seconds
from pinlater.worker.session.failure_text import origin_here


class WaitReason(NamedTuple):
    """What a blocked job waits for.

    Attributes:
        what: what it waits for, in words.
        ending: how the wait is counted; empty: as a sleep.
    """

    what: str
    ending: str


REASONS: dict[type[BaseException | None], WaitReason] = {
    StepMismatch: WaitReason("code that fits its steps", MISMATCH),
    QueueNotFound: WaitReason("a queue", NO_QUEUE),
    **dict.fromkeys(STORE_OUT_OF_REACH, WaitReason("a shard", "")),
}
"""Errors that block a job instead of failing it."""


class BlockedWait(NamedTuple):
    """How long a blocked job waits.

    Attributes:
        mark: mark to store in its body.
        until_ms: when it is tried again, epoch milliseconds.
        status: text for its custom status; empty if that says so already.
    """

    mark: MismatchMark
    until_ms: int
    status: str


def blocked_wait(
    known: MismatchMark | None,
    key: str,
    error: PinLaterError,
    *,
    now_ms: int,
    give_up_seconds: float | None,
    chance: Callable[[], float] = random.random,
) -> BlockedWait | None:
    """Return how long a job waits; None if it has waited long enough, and the attempt fails.

    Args:
        known: the mark in its body; None: there is none.
        key: what blocks it now, as in ``MismatchMark``.
        error: says so in words; its class is one of ``REASONS``.
        now_ms: epoch milliseconds of the server's clock.
        give_up_seconds: how long a job waits in all; None: not at all.
        chance: spreads the waits, so that jobs which came together do not come back together.
    """
    if give_up_seconds is None:
        return None
    is_known = known is not None and known.step == key
    mark = known if known is not None and is_known else MismatchMark(key, now_ms)
    age_seconds = max(now_ms - mark.since_ms, 0) / 1000
    if age_seconds >= give_up_seconds:
        return None
    status = "" if is_known else f"[{origin_here(now_ms / 1000)}] waits for {REASONS[type(error)].what}: {error}\n"
    return BlockedWait(mark, now_ms + int(release_seconds(age_seconds, chance) * 1000), status)
