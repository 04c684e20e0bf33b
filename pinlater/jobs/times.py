"""Checks the times that a job gives to its context."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from numbers import Real

END_OF_TIME = 1e11
"""Epoch seconds, in the year 5138."""


def check_seconds(seconds: float, what: str) -> None:
    """Refuse a duration that is no number, such as a timedelta.

    Args:
        seconds: the duration.
        what: what it is, for the error.

    Raises:
        TypeError: it is no number.
    """
    if not isinstance(seconds, Real | Decimal):
        raise TypeError(f"{what} is a number of seconds, such as 3 * 86400 for three days, not {seconds!r:.80}")


def epoch_seconds(moment: datetime | float, what: str) -> float:
    """Return a moment in epoch seconds.

    Args:
        moment: a datetime or epoch seconds.
        what: what it is given to, for the error.

    Raises:
        TypeError: it is neither a datetime nor a number.
        ValueError: it is in the far future, or not a number, such as NaN.
    """
    if not isinstance(moment, datetime | Real | Decimal):
        raise TypeError(f"{what} takes a datetime or epoch seconds, not {moment!r:.80}")
    seconds = moment.timestamp() if isinstance(moment, datetime) else moment
    if not seconds < END_OF_TIME:
        raise ValueError(f"{what} takes a datetime or epoch seconds; {moment} is in the far future")
    return seconds
