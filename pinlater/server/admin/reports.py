"""What the server processes say of themselves, gathered anew for every page."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import msgspec

from pinlater.server.admin.reporter import SUFFIX
from pinlater.server.metrics.families import Snapshot
from pinlater.server.metrics.reports import Report, decode_report, snapshots_of, total_of
from pinlater.server.metrics.shard_state import ShardState, joined

_ANSWER_SECONDS = 2.0
_NOBODY = "no server process answers"

log = logging.getLogger(__name__)


class View:
    """All processes at one moment.

    Args:
        living: reports of those that answered.
        departed: counts of those that do so no more; they stay in the sums.
    """

    def __init__(self, living: list[Report], departed: list[Report]) -> None:
        self._living = living
        self._departed = departed

    @property
    def reason(self) -> str | None:
        """Why no process takes calls now; None if one does."""
        reasons = [report.reason for report in self._living]
        if None in reasons:
            return None
        return reasons[0] if reasons else _NOBODY

    @property
    def living(self) -> list[Report]:
        """Reports of the processes that answered."""
        return self._living

    @property
    def pids(self) -> list[int]:
        """The processes that answered."""
        return [report.pid for report in self._living]

    @property
    def shards(self) -> list[ShardState]:
        """How the processes find the store's shards."""
        return joined(state for report in self._living for state in report.shards)

    def snapshot(self) -> list[Snapshot]:
        """Return the sums. Counters do not fall when a process is replaced."""
        return snapshots_of(total_of([*self._living, *self._departed]))


class Reports:
    """Asks all processes that have a socket in a folder.

    Args:
        folder: see ``Reporter``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._latest: dict[Path, Report] = {}
        self._departed = Report(0)

    async def gather(self) -> View:
        """Return what they say; of one that does not answer in time, its latest counts."""
        paths = sorted(self._folder.glob(f"*{SUFFIX}"))
        answers = zip(paths, await asyncio.gather(*map(_ask, paths)), strict=True)
        living = {path: report for path, report in answers if report is not None}
        self._latest |= living
        self._bury()
        silent = [report.without_present() for path, report in self._latest.items() if path not in living]
        return View(list(living.values()), [self._departed, *silent])

    def _bury(self) -> None:
        """Keep the counts of processes whose socket is gone; they are their last ones."""
        for path in [path for path in self._latest if not path.exists()]:
            report = self._latest.pop(path).without_present()
            self._departed = total_of([self._departed, report])


async def _ask(path: Path) -> Report | None:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            with contextlib.closing(writer):
                return decode_report(await reader.read(-1))
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - takes no time; its process was killed
    except (OSError, TimeoutError, msgspec.MsgspecError) as error:
        log.debug("%s: %s", path.name, error)
    return None
