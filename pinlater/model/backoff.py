"""Backoff: how long a failed job waits for its next attempt.

A backoff maps the number of failed attempts to seconds. Jitter spreads the retries of jobs that failed together; the
random source is an argument, so that tests can fix it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import msgspec


class Backoff(Protocol):
    """Computes the delay after the n-th failed attempt."""

    def delay(self, attempts_spent: int, /) -> float:
        """Return the seconds to wait after ``attempts_spent`` (≥ 1) failures."""
        ...


def _check(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, int | float) or not value >= 0:
            raise ValueError(f"backoff: {name}={value!r} must be a number, 0 or more")


def _spread(seconds: float, jitter: float, chance: Callable[[], float]) -> float:
    """Lengthen ``seconds`` by a random share of up to ``jitter``; never shorten it, so that the minimum wait holds."""
    return seconds * (1.0 + jitter * chance()) if jitter else seconds


class Constant(msgspec.Struct, frozen=True, tag_field="kind", tag="constant"):
    """The same delay after every failure.

    Attributes:
        seconds: the delay.
        jitter: adds a random share of the delay, up to this fraction.
    """

    seconds: float
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(seconds=self.seconds, jitter=self.jitter)

    def delay(self, attempts_spent: int, chance: Callable[[], float] = random.random) -> float:  # noqa: ARG002
        """Return the delay in seconds."""
        return _spread(self.seconds, self.jitter, chance)


class Linear(msgspec.Struct, frozen=True, tag_field="kind", tag="linear"):
    """``first`` seconds after the first failure, ``step`` more after each later one, at most ``cap``."""

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
    """``first`` seconds after the first failure, ``factor`` times as long after each later one, at most ``cap``."""

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
"""1 s, 2 s, 4 s, … 2 h, 4 h, 4 h."""
