"""How long a job's unique key stays taken."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class OnDuplicate(IntEnum):
    """What becomes of the job that has the key, if it was never claimed; the numbers are those of the wire."""

    KEEP = 0
    REPLACE = 1
    DEBOUNCE = 2


class UniqueRule(NamedTuple):
    """Further rules of an enqueue with a unique key; without them, a key is taken until its job finishes.

    Attributes:
        until_started: whether to take the key over from a job that has been claimed, instead of storing nothing.
        period_ms: how long from the enqueue the key stays taken, even if the job has started, finished or was deleted
            after its end.
        on_duplicate: ``REPLACE``: the waiting job gets body, attempts and status of the new one; ``DEBOUNCE``: also
            its time, but none in the past.
        max_delay_ms: with ``DEBOUNCE``: how long after its enqueue the job is due at the latest; None: no limit.
    """

    until_started: bool = False
    period_ms: int = 0
    on_duplicate: int = OnDuplicate.KEEP
    max_delay_ms: int | None = None
