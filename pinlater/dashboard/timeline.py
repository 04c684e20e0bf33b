"""Timeline of a job: its wait, attempts, steps and sleeps, as bars over the time they took.

The data comes from the job's status (failed attempts) and its body (steps). Waits and sleeps are drawn shorter than
they were if the bars of the work would otherwise be too small to see.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pinlater.client.waits import due_ms
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState

WIDTH = 1000.0
"""Units of the time axis."""

_LEAST_WIDTH = 3.0
_IDLE_SHARE = 0.15
"""Each idle time is drawn at most this share of the work's width."""

_IDLE = frozenset({"waited", "sleep", "retry"})


class TimelineRow(NamedTuple):
    """Something that happened to a job, or will happen.

    Attributes:
        kind: ``waited``, ``attempt``, ``step``, ``sleep`` or ``retry``.
        name: name of the attempt, step or sleep.
        state: display state, which chooses its color.
        start_ms: epoch milliseconds of its start; None if unknown.
        end_ms: epoch milliseconds of its end; None if unknown.
        attempt: number of the attempt; None if unknown or if it belongs to none.
        note: further information, such as an error.
        x: left end of its bar.
        width: width of its bar; 0 if it has none.
    """

    kind: str
    name: str
    state: str
    start_ms: int | None
    end_ms: int | None
    attempt: int | None = None
    note: str = ""
    x: float = 0.0
    width: float = 0.0

    @property
    def seconds(self) -> float | None:
        """How long it took; None if unknown."""
        if self.start_ms is None or self.end_ms is None:
            return None
        return max(self.end_ms - self.start_ms, 0) / 1000


class Timeline(NamedTuple):
    """What happened to a job.

    Attributes:
        rows: what happened, in the order of time.
        is_shortened: whether some idle time is drawn shorter than it was.
    """

    rows: list[TimelineRow]
    is_shortened: bool


def timeline_of(info: JobInfo, metadata: BodyMetadata | None, now_ms: int, *, since_ms: int | None = None) -> Timeline:
    """Return what happened to a job, in the order of time.

    Args:
        info: the job.
        metadata: metadata in its body; None if the body is hidden, or there is none.
        now_ms: epoch milliseconds.
        since_ms: epoch milliseconds since which it has been running; None if unknown, or if it does not run.
    """
    kept = metadata or BodyMetadata()
    failed = list(_attempts(info, kept))
    rows = [*failed, *_succeeded(info), *_steps(kept, info)]
    if since_ms is not None and info.state is JobState.IN_PROGRESS:
        number = info.attempts_allowed - info.attempts_remaining + 1
        rows.append(TimelineRow("attempt", f"attempt {number}", "running", since_ms, now_ms, number))
    rows += _sleeps(kept, rows, now_ms)
    rows = [*_waited(info, rows, now_ms), *rows, *_next_attempt(info, failed, now_ms)]
    rows.sort(key=lambda row: (row.start_ms or row.end_ms or now_ms, row.kind != "attempt"))
    return _with_bars(rows)


def _attempts(info: JobInfo, kept: BodyMetadata) -> Iterator[TimelineRow]:
    since_ms = info.created_at_ms or 0
    for failed in info.failed_attempts:
        name = failed.title if failed.attempt is None else f"attempt {failed.attempt}"
        start_ms, end_ms = None, failed.at_ms
        if end_ms is not None and failed.seconds is not None:
            took_ms = int(failed.seconds * 1000)
            # The time of a failure is truncated to the second, which may have begun before the attempt, or the job, and
            # before the end of steps that the attempt has finished. Steps that end after this second are those of a
            # later attempt: when a job is retried by hand, the numbers of its attempts are used again.
            ends = [start + took for start, took, attempt in kept.times.values() if attempt == failed.attempt]
            end_of_steps = max((end for end in ends if end < end_ms + 1000), default=0)
            start_ms = max(end_ms - took_ms, since_ms, end_of_steps - took_ms)
            since_ms = end_ms = start_ms + took_ms
        note = f"in step {failed.step}: {failed.error}" if failed.step else failed.error
        yield TimelineRow("attempt", name, "failed", start_ms, end_ms, failed.attempt, note)


def _succeeded(info: JobInfo) -> Iterator[TimelineRow]:
    """Yield the attempt that succeeded, if its start is known."""
    if info.state is JobState.SUCCEEDED and info.run_ms is not None and info.updated_at_ms is not None:
        number = info.attempts_allowed - info.attempts_remaining + 1
        start_ms = info.updated_at_ms - info.run_ms
        yield TimelineRow("attempt", f"attempt {number}", "succeeded", start_ms, info.updated_at_ms, number)


def _steps(kept: BodyMetadata, info: JobInfo) -> Iterator[TimelineRow]:
    for name in kept.steps:
        start_ms, took_ms, attempt = kept.times.get(name, (None, 0, None))
        end_ms = None if start_ms is None else start_ms + took_ms
        yield TimelineRow("step", name, "succeeded", start_ms, end_ms, attempt)
    broken = {failed.step: failed for failed in info.failed_attempts if failed.step}
    for name in dict.fromkeys([*kept.tries, *broken]):
        if name not in kept.steps:
            attempt, tries = kept.tries.get(name, (None, 0))
            last = broken.get(name)
            note = f"failed {tries} times in attempt {attempt}" if tries > 1 else "failed"
            end_ms, number = (last.at_ms, last.attempt) if last else (None, attempt)
            yield TimelineRow("step", name, "failed", None, end_ms, number, note)


def _sleeps(kept: BodyMetadata, rows: list[TimelineRow], now_ms: int) -> list[TimelineRow]:
    """Return the sleeps; each began when the last success before its end had ended."""
    ends = [row.end_ms for row in rows if row.end_ms is not None and row.state == "succeeded"]
    found = []
    for name, until_ms in kept.sleeps.items():
        start_ms = max((end for end in ends if end <= min(until_ms, now_ms)), default=None)
        state = "scheduled" if until_ms > now_ms else "succeeded"
        found.append(TimelineRow("sleep", name, state, start_ms, until_ms))
    return found


def _waited(info: JobInfo, rows: Iterable[TimelineRow], now_ms: int) -> list[TimelineRow]:
    starts = [row.start_ms for row in rows if row.start_ms is not None]
    first_ms = min(starts, default=None)
    if first_ms is None:
        is_new = info.state is JobState.PENDING and not info.failed_attempts
        first_ms = max(now_ms, due_ms(info) or 0) if is_new else None
    if not info.created_at_ms or first_ms is None or first_ms <= info.created_at_ms:
        return []
    name = "waits" if first_ms >= now_ms else "waited"
    return [TimelineRow("waited", name, "pending", info.created_at_ms, first_ms)]


def _next_attempt(info: JobInfo, failed: list[TimelineRow], now_ms: int) -> list[TimelineRow]:
    next_ms = due_ms(info) or 0
    if info.state is not JobState.PENDING or not failed or next_ms <= now_ms or info.waits_for_key:
        return []
    return [TimelineRow("retry", "next attempt", "retrying", failed[-1].end_ms, next_ms)]


def _with_bars(rows: list[TimelineRow]) -> Timeline:
    drawn = [row for row in rows if row.start_ms is not None and row.end_ms is not None]
    axis, is_shortened = _axis(drawn)
    scaled = []
    for row in rows:
        if axis and row.start_ms is not None and row.end_ms is not None:
            x, end = axis[row.start_ms], axis[max(row.end_ms, row.start_ms)]
            width = max(end - x, _LEAST_WIDTH)
            scaled.append(row._replace(x=round(min(x, WIDTH - width), 1), width=round(width, 1)))
        else:
            scaled.append(row)
    return Timeline(scaled, is_shortened)


def _axis(rows: list[TimelineRow]) -> tuple[dict[int, float], bool]:
    """Return the position of each start and end on the axis, and whether idle times are shortened on it."""
    moments = sorted({moment for row in rows for moment in (row.start_ms, row.end_ms) if moment is not None})
    spans = list(itertools.pairwise(moments))
    begun = Counter[int]()  # how many begin at a moment, minus how many end then
    for row in rows:
        if row.kind not in _IDLE and (row.start_ms or 0) < (row.end_ms or 0):
            begun.update({row.start_ms or 0: 1, row.end_ms or 0: -1})
    is_busy = [number > 0 for number in itertools.accumulate(begun[moment] for moment in moments[:-1])]
    work = sum(last - first for (first, last), works in zip(spans, is_busy, strict=True) if works)
    most = _IDLE_SHARE * work if work else math.inf
    lengths = [
        last - first if works else min(float(last - first), most)
        for (first, last), works in zip(spans, is_busy, strict=True)
    ]
    is_shortened = any(length < last - first for (first, last), length in zip(spans, lengths, strict=True))
    scale = WIDTH / (sum(lengths) or 1)
    places = itertools.accumulate(lengths, initial=0.0)
    return {moment: place * scale for moment, place in zip(moments, places, strict=False)}, is_shortened
