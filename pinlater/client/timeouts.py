"""Validate the time-outs of a client."""

from __future__ import annotations

_LONGEST_SECONDS = 86_400.0


def check_timeouts(**seconds: float) -> None:
    """Check the time-outs of a client, each by its name.

    Raises:
        ValueError: one is not above 0, or longer than a day.
        TypeError: one is not a number.
    """
    for name, value in seconds.items():
        try:
            is_possible = 0 < value <= _LONGEST_SECONDS
        except TypeError:
            raise TypeError(f"{name}={value!r} has to be a number of seconds") from None
        if not is_possible:
            raise ValueError(f"{name}={value!r} is in seconds; it must be above 0, and no more than a day")
