"""When the next job of a key with a rate may be started, for stores that decide in Python.

At most one job of such a key is let through at a time, and it is due when it may be started. So a claim need not know
of rates: it takes what is due, and lets the next job through for the time that is then right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.model.rates import parse_rate
from pinlater.server.backends.key_turns import KeyedJob

SOON_MS = 1000
"""A job that is due so soon stays where it is, unless the transaction has changed it: another may be claiming it."""

MOST_THROUGH = 100
"""Jobs of a key that are let through, looked at by one decision."""

IDLE_MS = 3_600_000
"""The state of a key is looked at, and forgotten if no job needs it, when it has not changed for so long."""

_TOGETHER_US = 50_000
"""Jobs that may be started within this time may be started at once, so that high rates are kept in few steps."""


class _Pace(NamedTuple):
    """A rate in microseconds: between two starts, ahead of the pace, and its period."""

    interval: int
    ahead: int
    period: int


@lru_cache(maxsize=1000)
def _pace(text: str) -> _Pace:
    """Return the pace that keeps a rate in any period, although up to ``together`` jobs may start at once."""
    count, seconds = parse_rate(text)
    period = seconds * 1_000_000
    together = min(1 + count * _TOGETHER_US // period, count)
    interval = -(-period // (count - together + 1))
    return _Pace(interval, interval * (together - 1), period)


class KeyRate(NamedTuple):
    """The state of a key with a rate.

    Attributes:
        text: the rate.
        next_us: when the next job would be started at an even pace, in epoch microseconds.
    """

    text: str
    next_us: int = 0

    def starts_at(self, now: int) -> int:
        """Return when the next job may be started, in epoch milliseconds; no later than a period from now."""
        pace = _pace(self.text)
        return -(-min(self.next_us - pace.ahead, now * 1000 + pace.period) // 1000)

    def after(self, started: int, now: int) -> KeyRate:
        """Return the state after so many jobs were started."""
        return self._replace(next_us=max(self.next_us, now * 1000) + started * _pace(self.text).interval)

    def changed_to(self, text: str) -> KeyRate:
        """Return the state with another rate: the last start counts, as if this rate had held for it."""
        if not self.next_us:
            return KeyRate(text)
        return KeyRate(text, self.next_us - _pace(self.text).interval + _pace(text).interval)


class PacedKey(NamedTuple):
    """What is decided by about a key with a rate.

    Attributes:
        through: its jobs that are let through and not claimed.
        waiting: the first that waits, with the time that it is due; None: none does.
        running: how many are claimed; 0 unless the one that waits has a limit.
        starts_at: when the next may be started.
        held_until: jobs that are due at this time were held until then by the rate before.
    """

    through: Sequence[KeyedJob]
    waiting: KeyedJob | None
    running: int
    starts_at: int
    held_until: int | None = None


def paced_turns(key: PacedKey, now: int, ours: Collection[int] | None = None) -> dict[int, int]:
    """Return what ``run_after`` has to become of some jobs of a key with a rate, by id.

    One job is let through, for when it may be started. If there are more, since jobs have come back, all but one wait
    again, before the others.

    Args:
        key: what is through, and what waits.
        now: the time of the store.
        ours: jobs that the transaction has changed; None: no other transaction can change any.
    """
    earliest = max(key.starts_at, now)
    front = now if key.waiting is None else min(key.waiting.run_after, now)
    changed: dict[int, int] = {}
    stays, may_move = _divide(key.through, now, ours)
    kept: list[KeyedJob] = []
    for job in may_move:
        if (stays or kept) and not job.is_ordered:
            is_held = job.run_after <= earliest or job.run_after == key.held_until
            changed[job.local_id] = (front if is_held else job.run_after) + WAITS_FOR_KEY_MS
            continue
        due = earliest if job.run_after == key.held_until else max(job.run_after, key.starts_at)
        kept.append(job._replace(run_after=due))
        if due != job.run_after:
            changed[job.local_id] = due
    if key.waiting is not None and not stays:
        changed |= _next_through(key.waiting, kept, max(key.waiting.run_after, earliest), key.running)
    return changed


def _next_through(first: KeyedJob, kept: Sequence[KeyedJob], due: int, running: int) -> dict[int, int]:
    """Return what becomes of the first job that waits: it is let through, perhaps in place of one that is due later."""
    if not kept:
        return {first.local_id: due} if first.limit is None or running < max(first.limit, 1) else {}
    other = kept[0]
    if first.is_ordered or other.is_ordered or due + SOON_MS >= other.run_after:
        return {}
    return {other.local_id: other.run_after + WAITS_FOR_KEY_MS, first.local_id: due}


def _divide(
    through: Iterable[KeyedJob], now: int, ours: Collection[int] | None
) -> tuple[list[KeyedJob], list[KeyedJob]]:
    """Return the jobs that have to stay as they are, and the others, first come first."""
    stays: list[KeyedJob] = []
    may_move: list[KeyedJob] = []
    for job in sorted(through, key=lambda job: (job.run_after, job.local_id)):
        is_free = ours is None or job.local_id in ours or job.run_after > now + SOON_MS
        (may_move if is_free else stays).append(job)
    return stays, may_move
