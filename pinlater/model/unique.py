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
    """What an enqueue with a unique key asks for beside the key; without a rule, a key is taken until its job finishes.

    Attributes:
        until_started: take the key over from a job that was claimed before, instead of storing nothing.
        period_ms: for so long from the enqueue the key stays taken, also when the job has started, finished or was
            removed after its end.
        on_duplicate: ``REPLACE``: the job that waits gets body, attempts and status of the new one; ``DEBOUNCE``: also
            its time, but none in the past.
        max_delay_ms: with ``DEBOUNCE``, so long after its enqueue the job is due at the latest; None: no limit.
    """

    until_started: bool = False
    period_ms: int = 0
    on_duplicate: int = OnDuplicate.KEEP
    max_delay_ms: int | None = None
