"""Jobs made ready to be carried elsewhere: how many at once, and under which key they are known there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pinlater.model.jobs import JobInfo

PARCEL_BYTES = 4 << 20
"""Bodies of one call, about; it takes 16 MB."""

_FEWEST_AT_ONCE, _MOST_AT_ONCE = 8, 50
"""Bodies are asked for so many at once, before their size is known, and at most: a scan does not tell sizes."""

_MOST_ADDRESS_CHARACTERS = 170
"""Of a key, which has 200; a longer address is cut at its beginning, for the id is at its end."""


class Portions:
    """Cuts descriptors into lists for lookups with bodies; tell it of each answer what was in it."""

    def __init__(self) -> None:
        self._at_once = _FEWEST_AT_ONCE

    def cut(self, descriptors: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield all descriptors, as many at once as seems right by then."""
        start = 0
        while start < len(descriptors):
            some = descriptors[start : start + self._at_once]
            start += len(some)
            yield some

    def learn(self, jobs: Iterable[JobInfo]) -> None:
        """Take note of how large bodies are."""
        sizes = [len(job.body or b"") for job in jobs]
        mean = sum(sizes) // max(len(sizes), 1)
        self._at_once = min(max(PARCEL_BYTES // max(mean, 1), 1), _MOST_AT_ONCE)


def parcels(jobs: Iterable[JobInfo]) -> Iterator[list[JobInfo]]:
    """Yield jobs in lists that one call can carry."""
    parcel: list[JobInfo] = []
    size = 0
    for job in jobs:
        size += len(job.body or b"")
        if parcel and size > PARCEL_BYTES:
            yield parcel
            parcel, size = [], len(job.body or b"")
        parcel.append(job)
    if parcel:
        yield parcel


def keyed(job: JobInfo) -> JobInfo:
    """Return the job with a key by which it is known again elsewhere: its own, or one of its address and age.

    The address alone would not do: each store begins its ids anew, so the jobs of two stores have the same ones.
    """
    if job.unique is not None:
        return job
    return job._replace(unique=f"moved:{job.created_at_ms}:{job.descriptor[-_MOST_ADDRESS_CHARACTERS:]}")
