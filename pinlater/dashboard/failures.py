"""Failed jobs, grouped by error."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import parse_status

MOST_SCANNED = 5000
"""Failed jobs read for one page."""

_LONGEST_ERROR = 240
_VARYING = re.compile(
    r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}|0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+"
)
"""Parts that differ between failures of one kind: mail addresses, memory addresses, UUIDs, numbers."""

NO_ERROR = "(no error text)"


@dataclass(slots=True)
class ErrorGroup:
    """Jobs of one queue that failed with the same error.

    Attributes:
        queue: queue of the jobs.
        error: their error line, with varying parts replaced.
        example: the error line of one of them.
        first_ms: epoch milliseconds of the first failure.
        last_ms: epoch milliseconds of the last failure.
        jobs: descriptors of the jobs.
    """

    queue: str
    error: str
    example: str
    first_ms: int | None = None
    last_ms: int | None = None
    jobs: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Identifies the group in forms."""
        return hashlib.sha256(f"{self.queue} {self.error}".encode("utf-8", "replace")).hexdigest()[:24]

    def add(self, info: JobInfo) -> None:
        """Add a job."""
        self.jobs.append(info.descriptor)
        when = info.updated_at_ms
        if when is not None:
            self.first_ms = when if self.first_ms is None else min(self.first_ms, when)
            self.last_ms = when if self.last_ms is None else max(self.last_ms, when)


@dataclass(slots=True)
class FailureScan:
    """Groups of failed jobs.

    Attributes:
        groups: groups, the largest first.
        scanned: number of jobs read.
        left_out: names of queues that have further failed jobs.
    """

    groups: list[ErrorGroup]
    scanned: int
    left_out: list[str]

    def group(self, key: str) -> ErrorGroup | None:
        """Return a group by its key; None if there is none."""
        return next((group for group in self.groups if group.key == key), None)


async def scan_failures(client: AsyncVerbs, queues: Iterable[str]) -> FailureScan:
    """Read and group the failed jobs of some queues, up to ``MOST_SCANNED``, with a fair share for each queue.

    Raises:
        PinLaterError: the server does not answer.
    """
    scan = await client.scan_fairly(queues, JobState.FAILED, limit=MOST_SCANNED)
    found: dict[tuple[str, str], ErrorGroup] = {}
    for queue, jobs in scan.jobs.items():
        for info in jobs:
            _add(found, queue, info)
    groups = sorted(found.values(), key=lambda group: (-len(group.jobs), group.queue, group.error))
    return FailureScan(groups, scan.scanned, sorted(scan.left_out))


def _add(found: dict[tuple[str, str], ErrorGroup], queue: str, info: JobInfo) -> None:
    line = error_line(info.status) or NO_ERROR
    error = _VARYING.sub("#", line)
    group = found.get((queue, error))
    if group is None:
        group = found[queue, error] = ErrorGroup(queue, error, line)
    group.add(info)


def error_line(status: str) -> str:
    """Return the error line of the last failure in a status; empty if there is none."""
    remark, attempts = parse_status(status)
    line = attempts[-1].error if attempts else next(iter(remark.strip().splitlines()), "")
    return line.strip()[:_LONGEST_ERROR]
