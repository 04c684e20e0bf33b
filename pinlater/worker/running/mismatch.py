"""Lets jobs wait for what others have to bring back, no attempt spent.

Either their recorded steps do not fit the code of this worker, because a workflow was changed in a way that its running
jobs cannot follow. Or they enqueue others in a queue that nobody has created. The next deployment, or a return to the
last one, lets them continue; so they are not considered failed for days. Or the others belong on a shard that is away.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from typing import NamedTuple

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import PinLaterError, QueueNotFound, StepMismatch
from pinlater.model.body_metadata import MismatchMark
from pinlater.model.status import format_origin
from pinlater.worker.claim_table.counters import MISMATCH, NO_QUEUE
from pinlater.worker.running.unknown import release_seconds


class WaitReason(NamedTuple):
    """What a job waits for.

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
"""Errors that let a job wait instead of failing."""


class MismatchWait(NamedTuple):
    """How long a job waits for a deployment.

    Attributes:
        mark: mark to store in its body.
        until_ms: when it is tried again, epoch milliseconds.
        status: text for its custom status; empty if that says so already.
    """

    mark: MismatchMark
    until_ms: int
    status: str


def mismatch_wait(
    known: MismatchMark | None,
    step: str,
    error: PinLaterError,
    *,
    now_ms: int,
    give_up_seconds: float | None,
    chance: Callable[[], float] = random.random,
) -> MismatchWait | None:
    """Return how long a job waits; None if it has waited long enough, and the attempt fails.

    Args:
        known: the mark in its body; None: there is none.
        step: key of the step that does not fit, or of the queue whose jobs cannot be stored.
        error: says what does not fit, or is missing; its class is one of ``REASONS``.
        now_ms: epoch milliseconds of the server's clock.
        give_up_seconds: how long a job waits in all; None: not at all.
        chance: spreads the waits, so that jobs which came together do not come back together.
    """
    if give_up_seconds is None:
        return None
    is_known = known is not None and known.step == step
    mark = known if known is not None and is_known else MismatchMark(step, now_ms)
    age_seconds = max(now_ms - mark.since_ms, 0) / 1000
    if age_seconds >= give_up_seconds:
        return None
    origin = format_origin(socket.gethostname(), os.getpid(), now_ms / 1000)
    status = "" if is_known else f"[{origin}] waits for {REASONS[type(error)].what}: {error}\n"
    return MismatchWait(mark, now_ms + int(release_seconds(age_seconds, chance) * 1000), status)
