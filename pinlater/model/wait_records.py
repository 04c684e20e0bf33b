"""What a job's body records of the jobs that it has called, and of the events that it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

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
    """

    count: int
    batch: int
    enqueued: int = 0
    ranges: list[tuple[str, int]] = []
    until_ms: int = 0
    has_timed_out: bool = False
    again: CallRecord | None = None

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
        if sum(length for _, length in self.ranges) < self.enqueued:
            return  # some before these are not known
        for descriptor in descriptors:
            first, length = self.ranges[-1] if self.ranges else ("", 0)
            if length and descriptor == _following(first, length):
                self.ranges[-1] = first, length + 1
            elif len(self.ranges) < MOST_RANGES:
                self.ranges.append((descriptor, 1))
            else:
                return

    def descriptors(self, most: int | None = None) -> list[str]:
        """Return the descriptors of the children as far as they are known, in the order of their enqueues."""
        every = (_following(first, number) for first, length in self.ranges for number in range(length))
        return list(islice(every, most))


def _following(descriptor: str, number: int) -> str:
    head, _, local_id = descriptor.rpartition(":")
    return f"{head}:{int(local_id) + number}"


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
