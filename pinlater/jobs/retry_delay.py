"""The delay before the next attempt, in whole milliseconds within bounds."""

from __future__ import annotations

import logging

from pinlater.model.backoff import DEFAULT_BACKOFF, Backoff

LONGEST_DELAY_SECONDS = 49 * 86400.0
"""Longest delay that fits into the claim table."""

log = logging.getLogger(__name__)


def delay_ms(backoff: Backoff, attempts_spent: int) -> int:
    """Return the delay of a backoff; if a user-defined one fails, that of the default backoff."""
    try:
        return bounded_ms(backoff.delay(attempts_spent))
    except Exception:
        log.exception("backoff %r failed; using the default backoff", backoff)
        return bounded_ms(DEFAULT_BACKOFF.delay(attempts_spent))


def bounded_ms(seconds: float) -> int:
    """Return seconds as bounded milliseconds; NaN becomes the longest delay."""
    return max(int(seconds * 1000), 0) if seconds < LONGEST_DELAY_SECONDS else int(LONGEST_DELAY_SECONDS * 1000)
