"""Token buckets of queues with a rate limit: kept in the store, for all servers on it.

A bucket is a single number, a moment: the tokens up to then are spent. One token comes every 1/rate seconds, and those
that came since that moment can be taken; but at most one second's worth is saved up, or one token if that is more.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

_LONGEST_US = 10**15
"""Longest time between two tokens, 30 years; the moments of slower rates would not fit into the stores' numbers."""

_SKEW_US = 1_000_000
"""Clocks of servers on one store may differ a little; a moment further ahead than this came from a wrong clock."""

_ROUNDING_US = 0.5
"""Moments are whole microseconds: after waiting just long enough, a token may still lack a fraction of one."""


class Tokens(NamedTuple):
    """The result of acquiring tokens.

    Attributes:
        taken: how many tokens were taken, from 0 to those wanted; below 0, how many were given back.
        next_ms: milliseconds until there may be another token; 0: there is one now.
    """

    taken: int
    next_ms: int


AcquireTokens = Callable[[str, float, int], Awaitable[Tokens]]
"""Takes a queue, its rate and a number of tokens: acquires up to that many, or gives them back if it is negative."""


def interval_us(rate: float) -> float:
    """Return the time between two tokens, in microseconds."""
    return min(1e6 / rate, _LONGEST_US)


def most_saved_us(rate: float) -> float:
    """Return how long a bucket takes to fill up, in microseconds."""
    return max(1e6, interval_us(rate))


def spend(spent_until_us: int, now_us: int, rate: float, wanted: int) -> tuple[Tokens, int]:
    """Take tokens from a bucket, or give some back.

    Args:
        spent_until_us: the bucket's moment; any moment long ago means a full bucket.
        now_us: epoch microseconds.
        rate: tokens per second, above 0.
        wanted: how many to take at most; below 0, how many to give back.

    Returns:
        What was taken, and the bucket's new moment. Store that if ``taken`` is not 0, or if it is less than before.
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
