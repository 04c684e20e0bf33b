"""Reports the worker to a server every few seconds, so that idle workers are seen, too."""

from __future__ import annotations

import logging
import select
import signal
import threading
import time
from types import TracebackType
from typing import Self

from pinlater.client.servers import ServerSet
from pinlater.errors import PinLaterError, ProtocolError
from pinlater.worker.keeper.load_watch import LoadWatch
from pinlater.worker.keeper.memory_watch import MemoryWatch
from pinlater.worker.keeper.report import build_report, measured_processes, pids_of
from pinlater.worker.keeper.service_client import KeeperClient
from pinlater.worker.keeper.unknown_watch import UnknownWatch
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.session.connector import Connector
from pinlater.worker.shared import Shared

REPORT_SECONDS = 5.0
"""Interval of reports, unless a process starts or ends."""
KEEP_SECONDS = 30.0
"""How long servers keep a report; a killed worker is listed that much longer."""
ASK_AGAIN_SECONDS = 300.0
"""Pause after a server did not know the call, or after an internal error."""
_CHECK_SECONDS = 1.0
_CALL_SECONDS = 2.0
_CLOSE_SECONDS = 1.0
"""Longest duration of the last report, which the worker's end waits for."""

log = logging.getLogger(__name__)


class WorkerReporter:
    """Reports while it is entered; on exit, removes the worker from the list if the worker is stopping.

    It has a separate thread and connection, so that it delays no lease renewal, which is more important.

    Args:
        servers: servers to report to.
        shared: memory shared by the processes of the worker.
        generation: how many reloads came before; what older processes give back is not reported.
    """

    def __init__(self, servers: ServerSet, shared: Shared, generation: int = 0) -> None:
        self._shared = shared
        self._client = KeeperClient(Connector(servers, is_quiet=True), f"reporter:{shared.origin.id}")
        self._closing = PipeEvent()
        self._due_at = 0.0
        self._seen: tuple[list[int], bool] = ([], False)  # processes, and whether the worker stops
        self._is_listed = False
        self._unknown = UnknownWatch(shared, generation)
        self._load = LoadWatch(shared)
        self._memory = MemoryWatch()
        self._thread = threading.Thread(target=self._work, name="reporter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():  # a server is slow
            return
        if error is None and self._is_listed and self._shared.stopping.is_set:
            self._send_report(0.0, _CLOSE_SECONDS)
        self._client.close()

    def _work(self) -> None:
        # Signals must go to the main thread, to end its wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._closing.is_set:
            try:
                self._report_if_due()
            except Exception:  # data that is read while a process starts or ends may make no sense
                log.exception("cannot report this worker; retrying in %.0f s", ASK_AGAIN_SECONDS)
                self._wait(ASK_AGAIN_SECONDS)
            else:
                seconds = min(_CHECK_SECONDS, max(self._due_at - time.monotonic(), 0.0))
                self._wait(seconds, *([] if self._seen[1] else [self._shared.stopping]))

    def _report_if_due(self) -> None:
        """Report if that is due or processes have changed; measure their memory in any case."""
        now = time.monotonic()
        self._memory.measure(measured_processes(self._shared))
        known, self._seen = self._seen, (pids_of(self._shared), self._shared.stopping.is_set)
        if now >= self._due_at or (self._is_listed and self._seen != known):
            self._due_at = now + self._send_report(KEEP_SECONDS, _CALL_SECONDS)

    def _wait(self, seconds: float, *news: PipeEvent) -> None:
        """Wait ``seconds``, or until closed or an event is set."""
        poll = select.poll()
        for event in (self._closing, *news):
            poll.register(event, select.POLLIN)
        poll.poll(1000 * seconds)

    def _send_report(self, keep_seconds: float, patience_seconds: float) -> float:
        """Send a report; return the seconds until the next one."""
        report = build_report(self._shared, *self._unknown.recent(), self._load.recent())
        processes = self._memory.noted(report.processes)
        try:
            self._client.report_worker(report._replace(processes=processes), keep_seconds, patience_seconds)
        except ProtocolError as error:
            self._is_listed = False
            log.debug("no reports for %.0f s, since this server takes none: %s", ASK_AGAIN_SECONDS, error)
            return ASK_AGAIN_SECONDS
        except PinLaterError as error:
            self._is_listed = False
            log.debug("%s", error)
        else:
            self._is_listed = keep_seconds > 0
        return REPORT_SECONDS
