"""Validate the options of an enqueue about its unique key."""

from __future__ import annotations

from pinlater.jobs.enqueue_options import DuplicateAction, UniqueUntil
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.protocol.conversion.values import milliseconds

_LONGEST_PERIOD_SECONDS = 366 * 86400.0


_ACTIONS = {"keep": OnDuplicate.KEEP, "replace": OnDuplicate.REPLACE, "debounce": OnDuplicate.DEBOUNCE}


def unique_rule(
    unique: object,
    *,
    until: UniqueUntil | None,
    seconds: float | None,
    on_duplicate: DuplicateAction | None,
    max_delay: float | None,
) -> UniqueRule | None:
    """Return the rule that an enqueue sets for its unique key; None if it sets none.

    Raises:
        ValueError: an option is out of its range, or given without a key.
        TypeError: an option is of another type.
    """
    given = {"unique_until": until, "unique_for": seconds, "on_duplicate": on_duplicate, "max_delay": max_delay}
    named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if not named:
        return None
    if unique is None:
        raise ValueError(f"{named[0]} is about the key of unique=…, which is not given")
    if until not in (None, "finished", "started"):
        raise ValueError(f"unique_until={until!r} is neither 'finished' nor 'started'")
    action = _ACTIONS.get(on_duplicate or "keep")
    if action is None:
        raise ValueError(f"on_duplicate={on_duplicate!r} is neither 'keep' nor 'replace' nor 'debounce'")
    if max_delay is not None and action is not OnDuplicate.DEBOUNCE:
        raise ValueError(f"max_delay={max_delay!r} is for on_duplicate='debounce' alone")
    period_ms = _milliseconds("unique_for", seconds) or 0
    rule = UniqueRule(until == "started", period_ms, action, _milliseconds("max_delay", max_delay))
    return None if rule == UniqueRule() else rule


def _milliseconds(name: str, seconds: float | None) -> int | None:
    try:
        if seconds is None or 0.001 <= seconds <= _LONGEST_PERIOD_SECONDS:
            return None if seconds is None else milliseconds(seconds)
    except TypeError:
        raise TypeError(f"{name}={seconds!r} has to be a number of seconds") from None
    raise ValueError(f"{name}={seconds!r} is in seconds; it must be above 0, and no more than 366 days")
