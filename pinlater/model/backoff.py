"""How long a failed job waits for its next attempt: pure arithmetic.

A policy maps the number of attempts spent (1 after the first failure) to seconds. Jitter spreads
the retries of jobs that failed together; its source of chance is passed in, so tests can fix it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import msgspec


class Backoff(Protocol):
    """Anything that knows the delay after the n-th failed attempt."""

    def delay(self, attempts_spent: int, chance: Callable[[], float] = random.random) -> float:
        """Return seconds to wait after ``attempts_spent`` (≥ 1) failures; ``chance`` draws from [0, 1)."""
        ...


def _check(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, int | float) or not value >= 0:
            raise ValueError(f"backoff: {name}={value!r} must be a number of at least 0")


def _spread(seconds: float, jitter: float, chance: Callable[[], float]) -> float:
    """Lengthen ``seconds`` by up to its ``jitter`` share; never shorten, so a promised wait is kept."""
    return seconds * (1.0 + jitter * chance()) if jitter else seconds


class Constant(msgspec.Struct, frozen=True, tag_field="kind", tag="constant"):
    """The same delay after every failure.

    Attributes:
        seconds: the delay.
        jitter: up to this share of the delay is added by chance.
    """

    seconds: float
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(seconds=self.seconds, jitter=self.jitter)

    def delay(self, attempts_spent: int, chance: Callable[[], float] = random.random) -> float:  # noqa: ARG002
        """Return the delay in seconds."""
        return _spread(self.seconds, self.jitter, chance)


class Linear(msgspec.Struct, frozen=True, tag_field="kind", tag="linear"):
    """``first`` seconds after the first failure, ``step`` more after each further one, at most ``cap``."""

    first: float
    step: float
    cap: float = 3600.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(first=self.first, step=self.step, cap=self.cap, jitter=self.jitter)

    def delay(self, attempts_spent: int, chance: Callable[[], float] = random.random) -> float:
        """Return the delay in seconds."""
        return _spread(min(self.cap, self.first + self.step * max(attempts_spent - 1, 0)), self.jitter, chance)


class Exponential(msgspec.Struct, frozen=True, tag_field="kind", tag="exponential"):
    """``first`` seconds after the first failure, ``factor`` times as long after each further one, at most ``cap``."""

    first: float = 1.0
    cap: float = 3600.0
    factor: float = 2.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        _check(first=self.first, cap=self.cap, factor=self.factor, jitter=self.jitter)

    def delay(self, attempts_spent: int, chance: Callable[[], float] = random.random) -> float:
        """Return the delay in seconds."""
        try:
            grown = self.first * self.factor ** max(attempts_spent - 1, 0)
        except OverflowError:
            grown = self.cap
        return _spread(min(self.cap, grown), self.jitter, chance)


DEFAULT_BACKOFF = Exponential(first=1.0, cap=4 * 3600.0)
"""Quick at first, then ever slower: 1 s, 2 s, 4 s, … 2 h, 4 h, 4 h."""
