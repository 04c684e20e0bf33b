"""Collect the reports of the server processes, anew for each page."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from pinlater.server.admin.reporter import HEALTH, SUFFIX
from pinlater.server.metrics.families import Snapshot
from pinlater.server.metrics.reports import ProcessReport, decode_report, snapshots_of, sum_reports
from pinlater.server.metrics.shard_state import ShardState, combine

_ANSWER_SECONDS = 2.0
_NOBODY = "no server process answers"

log = logging.getLogger(__name__)


class ServerStatus(NamedTuple):
    """The combined reports of all server processes.

    Attributes:
        live: reports of the processes that answered.
        departed: counts of past processes, which stay in the sums.
    """

    live: list[ProcessReport]
    departed: list[ProcessReport]

    @property
    def reason(self) -> str | None:
        """Why no process can take calls now; None if one can."""
        reasons = [report.reason for report in self.live]
        if None in reasons:
            return None
        return reasons[0] if reasons else _NOBODY

    @property
    def pids(self) -> list[int]:
        """The processes that answered."""
        return [report.pid for report in self.live]

    @property
    def shards(self) -> list[ShardState]:
        """The states of the store's shards, combined over the processes."""
        return combine(state for report in self.live for state in report.shards)

    def snapshot(self) -> list[Snapshot]:
        """Return the summed metrics; counters do not drop when a process is replaced."""
        return snapshots_of(sum_reports([*self.live, *self.departed]))


class CollectStatus(Protocol):
    """Collects the reports of the server processes; see ``ReportCollector.collect``."""

    def __call__(self, *, health_only: bool = False) -> Awaitable[ServerStatus]: ...


class ReportCollector:
    """Collects reports from all processes with a socket in the private folder.

    Args:
        folder: see ``ReportServer``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._latest: dict[Path, ProcessReport] = {}
        self._departed = ProcessReport(0)
        self._gone: set[tuple[int, int]] = set()  # or a report that another page still reads would count twice

    async def collect(self, *, health_only: bool = False) -> ServerStatus:
        """Collect the reports; use the latest counts of a process that does not answer in time.

        Args:
            health_only: ask for no metrics, which would cost each process 30 ms with 2,000 queues.
        """
        paths = sorted(self._folder.glob(f"*{SUFFIX}"))
        asked = HEALTH if health_only else b""
        answers = zip(paths, await asyncio.gather(*(_fetch_report(path, asked) for path in paths)), strict=True)
        found = {path: report for path, report in answers if report is not None}
        if health_only:
            return ServerStatus(list(found.values()), [])
        self._latest |= {path: report for path, report in found.items() if _process(report) not in self._gone}
        self._absorb_departed()
        live = [report for path, report in found.items() if path in self._latest]
        silent = [report.counts_only() for path, report in self._latest.items() if path not in found]
        return ServerStatus(live, [self._departed, *silent])

    def _absorb_departed(self) -> None:
        """Add the last counts of processes whose socket is gone to the departed ones."""
        for path in [path for path in self._latest if not path.exists()]:
            report = self._latest.pop(path)
            self._gone.add(_process(report))
            self._departed = sum_reports([self._departed, report.counts_only()])


def _process(report: ProcessReport) -> tuple[int, int]:
    return report.pid, report.started_ms


async def _fetch_report(path: Path, asked: bytes) -> ProcessReport | None:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            with contextlib.closing(writer):
                writer.write(asked)
                writer.write_eof()
                return decode_report(await reader.read(-1))
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - takes no time; its process was killed
    except (OSError, TimeoutError, msgspec.MsgspecError) as error:
        log.debug("%s: %s", path.name, error)
    return None
