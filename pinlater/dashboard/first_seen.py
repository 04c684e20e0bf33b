"""Holders of claims, and when claims were first seen."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import NamedTuple

from pinlater.model.jobs import JobInfo

_WORKER = re.compile(r"worker:(?P<host>.+):(?P<pid>\d{1,10}):[0-9a-f]{1,32}(?:\.\d+)?", re.ASCII)
_MOST_KEPT = 10_000


class ClaimHolder(NamedTuple):
    """Holder of a claim.

    Attributes:
        source: name that the client sent.
        host: host of a PinLater worker; empty for other clients.
        pid: process id of a PinLater worker; 0 for other clients.
    """

    source: str
    host: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        """Short name for pages."""
        return f"{self.host} · {self.pid}" if self.host else self.source


def parse_holder(claim: str) -> ClaimHolder:
    """Parse the holder from a claim, ``<server host>:<port>:<start>:<source>:<counter>``."""
    source = claim.split(":", 3)[-1].rpartition(":")[0]
    match = _WORKER.fullmatch(source)
    return ClaimHolder(source, match["host"], int(match["pid"])) if match else ClaimHolder(source)


class FirstSeen:
    """Records when claims were first seen.

    The server reports only when a claimed job last changed, and workers renew their claims every few seconds. So the
    start of a claim is unknown; the earliest change that the dashboard has seen is an upper bound.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def since_ms(self, info: JobInfo) -> int | None:
        """Return the latest possible start of a job's claim in epoch milliseconds; None if unknown."""
        if info.claim is None or info.updated_at_ms is None:
            return None
        key = (info.descriptor, info.claim)
        first = min(self._seen.get(key, info.updated_at_ms), info.updated_at_ms)
        self._seen[key] = first
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_KEPT:
            self._seen.popitem(last=False)
        return first
