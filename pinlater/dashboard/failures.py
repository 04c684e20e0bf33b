"""The failed jobs of queues, put together by what went wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.model.records import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import parse_status

MOST_SCANNED = 5000
"""Jobs looked at for one page."""

_LONGEST_ERROR = 240
_VARYING = re.compile(
    r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}|0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+"
)
"""What differs between failures of one kind: mail addresses, addresses in memory, UUIDs, numbers."""

SILENT = "(no error text)"


@dataclass(slots=True)
class Group:
    """Jobs of one queue that failed for the same reason.

    Attributes:
        queue: theirs.
        error: the line that they share, without what varies.
        example: the whole line of one of them.
        first_ms: when the first of them failed, epoch milliseconds.
        last_ms: when the last one did.
        jobs: their descriptors.
    """

    queue: str
    error: str
    example: str
    first_ms: int | None = None
    last_ms: int | None = None
    jobs: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Names the group in a form."""
        return hashlib.sha256(f"{self.queue} {self.error}".encode("utf-8", "replace")).hexdigest()[:24]

    def add(self, info: JobInfo) -> None:
        """Take a job in."""
        self.jobs.append(info.descriptor)
        when = info.updated_at_ms
        if when is not None:
            self.first_ms = when if self.first_ms is None else min(self.first_ms, when)
            self.last_ms = when if self.last_ms is None else max(self.last_ms, when)


@dataclass(slots=True)
class Failures:
    """What was found.

    Attributes:
        groups: the largest first.
        scanned: how many jobs were looked at.
        left_out: queues that have further failed jobs, by name.
    """

    groups: list[Group]
    scanned: int
    left_out: list[str]

    def group(self, key: str) -> Group | None:
        """Return a group by its key."""
        return next((group for group in self.groups if group.key == key), None)


async def failures_of(client: AsyncVerbs, queues: Iterable[str]) -> Failures:
    """Look at the failed jobs of some queues: of each those due latest, and of deep ones as many as there is room for.

    Raises:
        PinLaterError: the server does not answer.
    """
    scan = await client.scan_fairly(queues, JobState.FAILED, limit=MOST_SCANNED)
    found: dict[tuple[str, str], Group] = {}
    for queue, jobs in scan.jobs.items():
        for info in jobs:
            _put(found, queue, info)
    groups = sorted(found.values(), key=lambda group: (-len(group.jobs), group.queue, group.error))
    return Failures(groups, scan.scanned, sorted(scan.left_out))


def _put(found: dict[tuple[str, str], Group], queue: str, info: JobInfo) -> None:
    line = error_line(info.status) or SILENT
    error = _VARYING.sub("#", line)
    group = found.get((queue, error))
    if group is None:
        group = found[queue, error] = Group(queue, error, line)
    group.add(info)


def error_line(status: str) -> str:
    """Return what a status says of the last failure: one line; empty if it says nothing."""
    remark, attempts = parse_status(status)
    line = attempts[-1].error if attempts else next(iter(remark.strip().splitlines()), "")
    return line.strip()[:_LONGEST_ERROR]
