"""Learns from a server at once which running jobs were cancelled, and tells their processes."""

from __future__ import annotations

import logging
import select
import signal
import threading
import time
from collections.abc import Collection
from types import TracebackType
from typing import Self

from pinlater_supervisor import Child

from pinlater.client.connection import Connection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallError, CallTimeout, PinLaterError, ProtocolError, ServiceError
from pinlater.model.messages import CancelledJobs
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.keeper.held_claims import held_claims, mark_stops
from pinlater.worker.keeper.service_client import KeeperClient
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.session.connector import Connector

ASK_AGAIN_SECONDS = 300.0
"""Pause after a server did not know the call, or after an internal error; until then, only lease renewals tell."""
_WAIT_SECONDS = 20.0
_CALL_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = (0.15, 1.0)
"""A job may be cancelled while the answer that hands it out is on its way, so the claim table is read again."""
_LEAST_SECONDS = 0.2
"""Pause after an empty answer that came at once: the server parks no calls, for example because it is stopping."""

log = logging.getLogger(__name__)


class CancelWatch:
    """Asks while it is entered, in a separate thread and on separate connections, so that it delays no lease renewal.

    The server's answer is only a hint: the renewal of a claim says whether its job is cancelled.

    Args:
        child: the keeper's process; wakes the master, which kills the processes of jobs that do not stop.
        servers: servers to ask.
        claim_table: the claims of the job processes.
    """

    def __init__(self, child: Child, servers: ServerSet, claim_table: ClaimTable) -> None:
        self._child = child
        self._claim_table = claim_table
        self._connector = Connector(servers, is_quiet=True)
        self._client = KeeperClient(self._connector, f"cancel_watch:{child.pid}")
        self._calls = Calls(f"cancel_watch:{child.pid}", is_plain=True)
        self._connection: Connection | None = None
        self._since_ms = 0
        self._named: list[tuple[float, Collection[str]]] = []
        self._closing = PipeEvent()
        self._thread = threading.Thread(target=self._work, name="cancel-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        # Signals must go to the main thread, to end its wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._closing.is_set:
            self._wait(self._ask_safely())
        self._close()
        self._client.close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask_safely(self) -> float:
        """Ask once; return the seconds until the next time."""
        try:
            return self._ask()
        except ProtocolError as error:
            log.debug("cancelled jobs stop later, since this server does not tell of them at once: %s", error)
            return ASK_AGAIN_SECONDS
        except PinLaterError as error:
            log.debug("%s", error)
            if isinstance(error, CallError) and self._connection is not None:
                self._connector.note_failure(self._connection, error)
            return self._connector.delay_seconds
        except Exception:
            log.exception("cannot ask for cancelled jobs; retrying in %.0f s", ASK_AGAIN_SECONDS)
            return ASK_AGAIN_SECONDS

    def _ask(self) -> float:
        began = time.monotonic()
        told = self._cancelled_jobs(self._connected())
        if told is None:
            return 0.0
        self._since_ms = told.asked_ms
        if told.descriptors:
            now = time.monotonic()
            self._named += [(now + seconds, told.descriptors) for seconds in (0.0, *_LOOK_AGAIN_SECONDS)]
            self._look()
            return 0.0
        return _LEAST_SECONDS if time.monotonic() - began < _LEAST_SECONDS else 0.0

    def _connected(self) -> Connection:
        """Return a connection to a server; on a new one, ask for all cancellations that the server remembers.

        Raises:
            ServerUnavailable: none answers.
        """
        if self._connection is None or self._connection.is_stale():
            self._close()
            self._connection, self._since_ms = self._connector.connect(), 0
        return self._connection

    def _cancelled_jobs(self, connection: Connection) -> CancelledJobs | None:
        """Wait for jobs cancelled since the last answer, and return them; None if the watch is closed meanwhile.

        Raises:
            CallError, ServiceError: the call failed.
        """
        call = self._calls.cancelled_jobs(self._since_ms, wait=_WAIT_SECONDS)
        number = connection.send(call.method, call.arguments, _CALL_SECONDS)
        deadline = time.monotonic() + _WAIT_SECONDS + _CALL_SECONDS
        while not connection.has_buffered_reply:
            if self._wait(self._look(), connection):
                break
            if self._closing.is_set:
                return None
            if time.monotonic() >= deadline:
                connection.close()
                raise CallTimeout(f"no answer to {call.method} {number}")
        told: CancelledJobs = call.convert(connection.receive(_CALL_SECONDS))
        return told

    def _wait(self, seconds: float, connection: Connection | None = None) -> bool:
        """Wait ``seconds``, or until closed; return whether bytes have come on the connection."""
        poll = select.poll()
        poll.register(self._closing, select.POLLIN)
        if connection is not None:
            poll.register(connection, select.POLLIN)
        ready = poll.poll(1000 * seconds)
        return connection is not None and any(number == connection.fileno() for number, _ in ready)

    def _look(self) -> float:
        """Look for the named jobs in the claim table if that is due; return the seconds until the next time."""
        now = time.monotonic()
        due = [names for moment, names in self._named if moment <= now]
        self._named = [(moment, names) for moment, names in self._named if moment > now]
        if due:
            self._tell({name for names in due for name in names})
        return min((moment - now for moment, _ in self._named), default=_WAIT_SECONDS)

    def _tell(self, names: Collection[str]) -> None:
        """Mark the named jobs that this worker holds, if the renewal of their claims says that they are cancelled."""
        seen_ns = time.monotonic_ns()
        held = held_claims(self._claim_table, lambda _, job: job.descriptor in names and not job.is_cancelled)
        if not held:
            return
        try:
            renewal = self._client.renew([claim.key for claim in held])
        except (CallError, ServiceError) as error:
            log.debug("cancelled jobs stop later, since their claims could not be renewed: %s", error)
            return
        mark_stops(held, renewal, seen_ns)
        if renewal.cancelled:
            self._child.wake_master()
