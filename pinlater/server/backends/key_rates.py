"""When the next job of a key with a rate may be started, for stores that decide in Python.

At most one job of such a key is let through at a time, and it falls due when it may be started. So a claim need not
know about rates: it takes what is due, and lets the next job through for the time at which that may be started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.model.rates import parse_rate
from pinlater.server.backends.key_turns import KeyedJob

SOON_MS = 1000
"""A job that is due this soon is not moved, unless the transaction has changed it: another may be claiming it."""

MOST_THROUGH = 100
"""Most jobs of a key already let through that one decision looks at."""

IDLE_MS = 3_600_000
"""When the state of a key has not changed for this long, it is checked, and deleted if no job needs it."""

_TOGETHER_US = 50_000
"""Jobs that may be started within this time may be started together, so that high rates take few steps."""


class _Pace(NamedTuple):
    """A rate, in microseconds.

    Attributes:
        interval: time between two starts.
        ahead: how far starts may be ahead of an even pace.
        period: the period of the rate.
    """

    interval: int
    ahead: int
    period: int


@lru_cache(maxsize=1000)
def _pace(text: str) -> _Pace:
    """Return the pace that keeps to a rate in any period, although up to ``together`` jobs may start at once."""
    count, seconds = parse_rate(text)
    period = seconds * 1_000_000
    together = min(1 + count * _TOGETHER_US // period, count)
    interval = -(-period // (count - together + 1))
    return _Pace(interval, interval * (together - 1), period)


class KeyRate(NamedTuple):
    """The state of a key with a rate.

    Attributes:
        text: the rate, such as ``10/s``.
        next_us: when the next job would be started at an even pace, in epoch microseconds; 0: none was started yet.
    """

    text: str
    next_us: int = 0

    def starts_at(self, now: int) -> int:
        """Return when the next job may be started, in epoch milliseconds; no later than one period after ``now``."""
        pace = _pace(self.text)
        return -(-min(self.next_us - pace.ahead, now * 1000 + pace.period) // 1000)

    def after(self, started: int, now: int) -> KeyRate:
        """Return the state after ``started`` jobs were started."""
        return self._replace(next_us=max(self.next_us, now * 1000) + started * _pace(self.text).interval)

    def changed_to(self, text: str) -> KeyRate:
        """Return the state with another rate, as if that had applied at the last start."""
        if not self.next_us:
            return KeyRate(text)
        return KeyRate(text, self.next_us - _pace(self.text).interval + _pace(text).interval)


class PacedKey(NamedTuple):
    """The facts by which to decide about the jobs of a key with a rate; times are epoch milliseconds.

    Attributes:
        through: its jobs that are let through and not claimed.
        waiting: the first job that waits, with the time at which it is due; None: none waits.
        running: how many of its jobs are claimed; 0 unless the one that waits has a limit.
        starts_at: when the next job may be started.
        held_until: jobs that are due at this time are due then only because the previous rate held them back.
    """

    through: Sequence[KeyedJob]
    waiting: KeyedJob | None
    running: int
    starts_at: int
    held_until: int | None = None


def paced_turns(key: PacedKey, now: int, ours: Collection[int] | None = None) -> dict[int, int]:
    """Return the new ``run_after`` of jobs of a key with a rate, by id; the others stay as they are.

    One job is let through, due when it may be started. If more than one is through, since jobs have come back, all but
    one wait again, in front of the others.

    Args:
        key: the jobs that are through, and the first one that waits.
        now: the time of the store.
        ours: ids of jobs that the transaction has changed; None: no other transaction can change any job.
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
    """Return the changes that let the first waiting job through, perhaps in place of one that is due later."""
    if not kept:
        return {first.local_id: due} if first.limit is None or running < max(first.limit, 1) else {}
    other = kept[0]
    if first.is_ordered or other.is_ordered or due + SOON_MS >= other.run_after:
        return {}
    return {other.local_id: other.run_after + WAITS_FOR_KEY_MS, first.local_id: due}


def _divide(
    through: Iterable[KeyedJob], now: int, ours: Collection[int] | None
) -> tuple[list[KeyedJob], list[KeyedJob]]:
    """Return the jobs that have to stay as they are, and the others, each in the order (run_after, id)."""
    stays: list[KeyedJob] = []
    may_move: list[KeyedJob] = []
    for job in sorted(through, key=lambda job: (job.run_after, job.local_id)):
        is_free = ours is None or job.local_id in ours or job.run_after > now + SOON_MS
        (may_move if is_free else stays).append(job)
    return stays, may_move
