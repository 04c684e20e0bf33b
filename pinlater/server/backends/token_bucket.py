"""Token buckets of queues with a rate limit: kept in the store, for all servers on it.

A bucket is one number, a moment: up to then its tokens are spent. One comes each 1/rate seconds, and what has come
since that moment can be taken; but no more than a second's worth is saved up, or one token, if a second has less.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

_LONGEST_US = 10**15
"""Between two tokens: 30 years; the moments of slower rates would not fit into the stores' numbers."""

_SKEW_US = 1_000_000
"""Clocks of servers on one store may differ a little; a moment that is further ahead is of a clock that was wrong."""

_ROUNDING_US = 0.5
"""Moments are whole microseconds: after waiting just long enough, a token may lack a bit of one."""


class Tokens(NamedTuple):
    """The result of acquiring tokens.

    Attributes:
        taken: how many, 0 to those wanted; below 0, how many were given back.
        next_ms: when there may be another one, in milliseconds from now; 0: there is.
    """

    taken: int
    next_ms: int


AcquireTokens = Callable[[str, float, int], Awaitable[Tokens]]
"""Acquires up to so many tokens of a queue with that rate; below 0, gives them back."""


def interval_us(rate: float) -> float:
    """Return the time between two tokens."""
    return min(1e6 / rate, _LONGEST_US)


def most_saved_us(rate: float) -> float:
    """Return how long a bucket fills until it is full."""
    return max(1e6, interval_us(rate))


def spend(spent_until_us: int, now_us: int, rate: float, wanted: int) -> tuple[Tokens, int]:
    """Take from a bucket, or give back.

    Args:
        spent_until_us: its moment; any one long ago is that of a full bucket.
        now_us: epoch microseconds.
        rate: tokens a second, above 0.
        wanted: how many, at most; below 0, how many are given back.

    Returns:
        What was taken, and the bucket's new moment, to be kept if something was taken or it is less than it was.
    """
    interval, most = interval_us(rate), most_saved_us(rate)
    ahead = spent_until_us - now_us
    if ahead > _SKEW_US:
        ahead = 0
    saved = min(max(now_us - spent_until_us, 0), most)
    taken = min(wanted, int((saved + _ROUNDING_US) / interval))
    left = round(min(saved - taken * interval, most))
    if ahead > 0 and not taken:
        return Tokens(0, math.ceil((interval + ahead) / 1000)), spent_until_us
    return Tokens(taken, math.ceil(max(interval - left - _ROUNDING_US, 0) / 1000)), now_us - left
