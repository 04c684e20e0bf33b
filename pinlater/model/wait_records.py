"""What a job's body records of the jobs that it has called, and of the events that it waits for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

MOST_RANGES = 128
"""Of descriptors that a body keeps of one call; with more, those of the later children are not known any more."""


class CallRecord(msgspec.Struct, omit_defaults=True):
    """A call of other jobs, the children. Their number does not change the size of this.

    Attributes:
        count: number of children.
        batch: most of them that were enqueued at once.
        enqueued: number of those that were enqueued; the rest follows.
        ranges: descriptors of those: the first of a row of consecutive ones, and their number.
        until_ms: epoch milliseconds after which nobody waits for them any more; 0: no limit.
        has_timed_out: that time came first.
        again: call of those that have failed, if a person has retried the job that was given up for that.
        fingerprint: of the jobs, see ``pinlater.jobs.call_fingerprints``; empty in records of older versions.
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
        """Let so many children that have failed be called again."""
        self.again = CallRecord(failed, self.batch)

    def latest(self) -> CallRecord:
        """Return the record of the last call of those that have failed; this one, if none were called again."""
        return self if self.again is None else self.again.latest()

    def counts(self) -> Iterator[int]:
        """Yield the number of children of this call, and of each that calls failed ones again."""
        yield self.count
        if self.again is not None:
            yield from self.again.counts()

    def restart(self) -> None:
        """Let the time begin anew."""
        self.until_ms, self.has_timed_out = 0, False

    def add(self, descriptors: list[str]) -> None:
        """Record the descriptors of children, in the order of their enqueues."""
        if not descriptors or sum(length for _, length in self.ranges) < self.enqueued:
            return  # some before these are not known
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
        """Return the descriptors of the children as far as they are known, in the order of their enqueues."""
        every = (one for first, length in self.ranges for one in itertools.islice(_consecutive(first), length))
        return list(itertools.islice(every, most))


def _consecutive(descriptor: str, skipped: int = 0) -> Iterator[str]:
    """Yield a descriptor and those that follow it, but for the first ones."""
    head, _, local_id = descriptor.rpartition(":")
    return (f"{head}:{number}" for number in itertools.count(int(local_id) + skipped))


class EventRecord(msgspec.Struct, omit_defaults=True):
    """The events of one name.

    Attributes:
        before: number of those that earlier runs of the job got.
        here: number of those that this run got.
        until_ms: which use of the name in this run -> epoch milliseconds after which it waits no longer.
        timeouts: uses of the name that have waited in vain.
    """

    before: int = 0
    here: int = 0
    until_ms: dict[int, int] = {}
    timeouts: list[int] = []

    def wanted(self, use: int) -> int:
        """Return the number of the event that a use of the name gets."""
        return self.before + use - sum(other < use for other in self.timeouts)
