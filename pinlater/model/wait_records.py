"""Records in a job's body of the jobs that it has called, and of the events that it waits for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

MOST_RANGES = 128
"""Maximum number of ranges of descriptors that a body stores for one call; descriptors beyond them are unknown."""


class CallRecord(msgspec.Struct, omit_defaults=True):
    """A call of other jobs, its children; the size of the record does not grow with their number.

    Attributes:
        count: number of children.
        batch: number of children to enqueue at a time.
        enqueued: number of children that were enqueued so far.
        ranges: their descriptors, in ranges of consecutive ones: the first one, and their number.
        until_ms: epoch milliseconds at which the wait for them times out; 0: no limit.
        has_timed_out: whether it timed out before all had ended.
        again: call of the failed children, if the job was given up because of them and then retried by hand.
        fingerprint: fingerprint of the jobs, see ``pinlater.jobs.call_fingerprints``; empty in records of older
            versions.
    """

    count: int
    batch: int
    enqueued: int = 0
    ranges: list[tuple[str, int]] = []
    until_ms: int = 0
    has_timed_out: bool = False
    again: CallRecord | None = None
    fingerprint: str = ""

    def call_again(self, failed: int) -> None:
        """Let the failed children, ``failed`` in number, be called again."""
        self.again = CallRecord(failed, self.batch)

    def latest(self) -> CallRecord:
        """Return the record of the latest call of failed children; this one, if none were called again."""
        return self if self.again is None else self.again.latest()

    def counts(self) -> Iterator[int]:
        """Yield the number of children of this call, and of each that calls failed ones again."""
        yield self.count
        if self.again is not None:
            yield from self.again.counts()

    def restart(self) -> None:
        """Let the timeout begin anew."""
        self.until_ms, self.has_timed_out = 0, False

    def add(self, descriptors: list[str]) -> None:
        """Record the descriptors of children, in the order of their enqueues."""
        if not descriptors or sum(length for _, length in self.ranges) < self.enqueued:
            return  # some descriptors before these are unknown
        first, length = self.ranges.pop() if self.ranges else (descriptors[0], 0)
        following = _consecutive(first, length)
        for descriptor in descriptors:
            if descriptor != next(following):
                self.ranges.append((first, length))
                if len(self.ranges) == MOST_RANGES:
                    return
                first, length, following = descriptor, 0, _consecutive(descriptor, 1)
            length += 1
        self.ranges.append((first, length))

    def descriptors(self, most: int | None = None) -> list[str]:
        """Return the known descriptors of the children, at most ``most``, in the order of their enqueues."""
        every = (one for first, length in self.ranges for one in itertools.islice(_consecutive(first), length))
        return list(itertools.islice(every, most))


def _consecutive(descriptor: str, skipped: int = 0) -> Iterator[str]:
    """Yield a descriptor and those that follow it, without the first ``skipped``."""
    head, _, local_id = descriptor.rpartition(":")
    return (f"{head}:{number}" for number in itertools.count(int(local_id) + skipped))


class EventRecord(msgspec.Struct, omit_defaults=True):
    """The events of one name.

    Attributes:
        before: number of events that earlier runs of the job got.
        here: number of events that this run got.
        until_ms: number of a use of the name in this run -> epoch milliseconds at which its wait times out.
        timeouts: numbers of the uses whose wait has timed out.
    """

    before: int = 0
    here: int = 0
    until_ms: dict[int, int] = {}
    timeouts: list[int] = []

    def wanted(self, use: int) -> int:
        """Return the number of the event that a use of the name gets."""
        return self.before + use - sum(other < use for other in self.timeouts)
