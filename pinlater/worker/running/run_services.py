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
        now: returns epoch seconds of the server's clock.
        unknown_seconds: how long jobs that do not fit this worker's code are released; None: they fail at once.
        limit_step: enforces the deadlines of steps.
    """

    now: Callable[[], float] = time
    unknown_seconds: float | None = None
    limit_step: LimitStep = StepLimits().limit


DEFAULT_SERVICES = RunServices()
