"""What the contexts of one runner share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import time


@dataclass(frozen=True, slots=True)
class RunServices:
    """What the contexts of one runner share.

    Attributes:
        now: epoch seconds, as the server has them.
        unknown_seconds: for how long jobs that do not fit this worker's code are given back; None: they fail at once.
    """

    now: Callable[[], float] = time
    unknown_seconds: float | None = None


DEFAULT_SERVICES = RunServices()
