"""Iteration over many items that stores its position in a field of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from pinlater.jobs.job import Job

_T = TypeVar("_T")


def iterate(
    job: Job, items: Iterable[_T], cursor: str, go_on: Callable[[], object], checkpoint: Callable[[], object]
) -> Iterator[_T]:
    """Return the items from the job's cursor on; see ``JobContext.iterate``.

    Args:
        job: the running job.
        items: all items.
        cursor: name of the field.
        go_on: called before the first item; raises if the attempt was already interrupted.
        checkpoint: called after each item.

    Raises:
        TypeError: the job has no field ``cursor`` that holds a whole number.
        ValueError: that number is negative.
    """
    start = getattr(job, cursor, None)
    kind = type(job).__name__
    if type(start) is not int:
        raise TypeError(f'iterate(cursor="{cursor}") counts in a field of the record; give {kind} "{cursor}: int = 0"')
    if start < 0:
        raise ValueError(f"the {cursor} of this {kind} is {start}; it counts finished items and cannot be negative")
    return _walk(job, enumerate(_from(items, start), start + 1), cursor, go_on, checkpoint)


def _walk(
    job: Job,
    rest: Iterable[tuple[int, _T]],
    cursor: str,
    go_on: Callable[[], object],
    checkpoint: Callable[[], object],
) -> Iterator[_T]:
    go_on()
    for finished, item in rest:
        yield item
        setattr(job, cursor, finished)  # not reached if the loop was left during this item
        checkpoint()


def _from(items: Iterable[_T], start: int) -> Iterable[_T]:
    if isinstance(items, Sequence):  # finished items need not be read
        return map(items.__getitem__, range(start, len(items)))
    return islice(items, start, None)
