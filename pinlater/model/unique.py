"""How long a job's unique key stays taken."""

from __future__ import annotations

from typing import NamedTuple


class UniqueRule(NamedTuple):
    """What an enqueue with a unique key asks for beside the key; without a rule, a key is taken until its job finishes.

    Attributes:
        until_started: take the key over from a job that was claimed before, instead of storing nothing.
        period_ms: for so long from the enqueue the key stays taken, also when the job has started, finished or was
            removed after its end.
    """

    until_started: bool = False
    period_ms: int = 0
