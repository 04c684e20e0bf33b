"""The delay before another attempt, in whole milliseconds, whatever a backoff says."""

from __future__ import annotations

import logging

from pinlater.model.backoff import DEFAULT_BACKOFF, Backoff

LONGEST_DELAY_SECONDS = 49 * 86400.0
"""Bounded by the claim board of workers."""

log = logging.getLogger(__name__)


def delay_ms(backoff: Backoff, attempts_spent: int) -> int:
    """Return the delay of a policy; one of somebody else's making may fail, which is no reason to lose the job."""
    try:
        return bounded_ms(backoff.delay(attempts_spent))
    except Exception:
        log.exception("the backoff %r failed; the default one is used", backoff)
        return bounded_ms(DEFAULT_BACKOFF.delay(attempts_spent))


def bounded_ms(seconds: float) -> int:
    """Return a delay; what is no number, or more than can be noted, is the longest one."""
    return max(int(seconds * 1000), 0) if seconds < LONGEST_DELAY_SECONDS else int(LONGEST_DELAY_SECONDS * 1000)
