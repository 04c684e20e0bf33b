"""What the contexts of one runner share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import time

from pinlater.worker.running.step_limits import LimitStep, StepLimits


@dataclass(frozen=True, slots=True)
class RunServices:
    """What the contexts of one runner share.

    Attributes:
        now: epoch seconds, as the server has them.
        unknown_seconds: for how long jobs that do not fit this worker's code are given back; None: they fail at once.
        limit_step: enforces the deadlines of steps.
        patience_seconds: how long a call waits for a server when there is none; the life of a claim.
    """

    now: Callable[[], float] = time
    unknown_seconds: float | None = None
    limit_step: LimitStep = StepLimits().limit
    patience_seconds: float = 30.0


DEFAULT_SERVICES = RunServices()
