"""Who holds a job, by its claim, and since when, as far as that can be told."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import NamedTuple

from pinlater.model.records import JobInfo

_WORKER = re.compile(r"worker:(?P<host>.+):(?P<pid>\d{1,10}):[0-9a-f]{1,32}(?:\.\d+)?", re.ASCII)
_MOST_KEPT = 10_000


class Holder(NamedTuple):
    """Who has claimed a job.

    Attributes:
        source: how it calls itself.
        host: of one of our workers; empty of others.
        pid: its process; 0 of others.
    """

    source: str
    host: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        """A short name."""
        return f"{self.host} · {self.pid}" if self.host else self.source


def holder_of(claim: str) -> Holder:
    """Read a claim: ``<server host>:<port>:<start>:<source>:<counter>``."""
    source = claim.split(":", 3)[-1].rpartition(":")[0]
    match = _WORKER.fullmatch(source)
    return Holder(source, match["host"], int(match["pid"])) if match else Holder(source)


class Sightings:
    """Remembers when claims were first seen.

    A server tells when it last heard of a claimed job, and workers call every few seconds; so of a claim that is not
    fresh it does not tell when it began. The earliest word that anybody saw here is what is known.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def since_ms(self, info: JobInfo) -> int | None:
        """Return since when, at the latest, a job is held, in epoch milliseconds; None if that is not known."""
        if info.claim is None or info.updated_at_ms is None:
            return None
        key = (info.descriptor, info.claim)
        first = min(self._seen.get(key, info.updated_at_ms), info.updated_at_ms)
        self._seen[key] = first
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_KEPT:
            self._seen.popitem(last=False)
        return first
