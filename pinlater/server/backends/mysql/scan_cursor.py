"""The position from which claims scan for due jobs while a backlog is worked off.

A claimed job leaves a deleted entry in the index until the database purges it, which takes long under load. A scan from
the start reads all of these. So while claims get as many jobs as they want, the next scan starts where the last one
ended. A scan from the start follows only at intervals, when there are fewer jobs than wanted, and when this server
itself has put a job before the cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType

MIN_SECONDS = 0.1
FULL_SCAN_SHARE = 0.1
"""Scans from the start take at most this fraction of the time."""

FROM_START: Mapping[str, int] = MappingProxyType({})


class ScanCursor:
    """The run_after from which each priority is scanned, by its descriptor prefix."""

    def __init__(self) -> None:
        self._run_after: dict[str, int] = {}
        self._valid_until = 0.0

    @property
    def positions(self) -> Mapping[str, int]:
        """The positions, or none if they are no longer valid."""
        return self._run_after if asyncio.get_running_loop().time() < self._valid_until else FROM_START

    def restart(self, scan_seconds: float) -> None:
        """Reset the positions after a scan from the start that took ``scan_seconds``."""
        now = asyncio.get_running_loop().time()
        self._valid_until = now + max(MIN_SECONDS, scan_seconds / FULL_SCAN_SHARE)
        self._run_after.clear()

    def advance(self, jobs: Iterable[tuple[str, int]]) -> None:
        """Move to the last claimed jobs, given the prefix and run_after of each in claim order."""
        self._run_after.update(jobs)

    def invalidate(self) -> None:
        """Make the next scan begin at the start."""
        self._valid_until = 0.0
