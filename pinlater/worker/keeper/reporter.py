"""Reports the worker to a server every few seconds, so that idle workers are seen, too."""

from __future__ import annotations

import logging
import select
import signal
import threading
import time
from types import TracebackType
from typing import Self

from pinlater.client.connection import Connection
from pinlater.client.servers import STORE_OUT_OF_REACH, ServerSet
from pinlater.errors import CallTimeout, PinLaterError, ProtocolError, ServerUnavailable
from pinlater.protocol.operations import Calls
from pinlater.worker.keeper.load_watch import LoadWatch
from pinlater.worker.keeper.memory_watch import MemoryWatch
from pinlater.worker.keeper.report import build_report, measured_processes, pids_of
from pinlater.worker.keeper.unknown_watch import UnknownWatch
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.shared import Shared

REPORT_SECONDS = 5.0
"""Interval of reports, unless a process starts or ends."""
KEEP_SECONDS = 30.0
"""How long servers keep a report; a killed worker is listed that much longer."""
ASK_AGAIN_SECONDS = 300.0
"""Pause after a server did not know the call, or after an internal error."""
_CHECK_SECONDS = 1.0
_CONNECT_SECONDS = 1.0
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
        self._servers = servers
        self._shared = shared
        self._calls = Calls(f"reporter:{shared.origin.id}")
        self._connection: Connection | None = None
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
        if self._connection is not None:
            self._connection.close()

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
            connection = self._connected()
            sent_ms = int(time.time() * 1000)
            call = self._calls.report_worker(report._replace(processes=processes, sent_ms=sent_ms), keep_seconds)
            connection.call(call.method, call.arguments, patience_seconds)
        except ProtocolError as error:
            self._is_listed = False
            log.debug("no reports for %.0f s, since this server takes none: %s", ASK_AGAIN_SECONDS, error)
            return ASK_AGAIN_SECONDS
        except PinLaterError as error:
            self._is_listed = False
            has_never_answered = self._connection is not None and not self._connection.has_answered
            if has_never_answered or isinstance(error, (CallTimeout, *STORE_OUT_OF_REACH)):
                self._leave_server()
            log.debug("%s", error)
        else:
            self._is_listed = keep_seconds > 0
        return REPORT_SECONDS

    def _leave_server(self) -> None:
        """Let the next report try another server first: perhaps only this one hangs, or is cut off from the store."""
        if self._connection is not None and self._servers.leave(self._connection.address):
            self._connection.close()

    def _connected(self) -> Connection:
        """Return a connection to a server.

        Raises:
            ServerUnavailable: none answers; each is tried once.
        """
        if self._connection is not None:
            if not self._connection.is_stale():
                return self._connection
            self._connection.close()
        for address in self._servers.candidates():
            try:
                self._connection = Connection(address, connect_timeout=_CONNECT_SECONDS, tls=self._servers.tls)
            except ServerUnavailable as error:
                failure = error
            else:
                return self._connection
        raise failure
