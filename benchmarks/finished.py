"""Jobs that a store has recorded as done."""

from __future__ import annotations

from typing import NamedTuple


class Finished(NamedTuple):
    """Jobs that succeeded: when the first and the last did, in epoch milliseconds, and how many."""

    first_ms: float
    last_ms: float
    count: int
