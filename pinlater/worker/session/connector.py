"""Connects to any available server, with growing delays between tries."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from pinlater.client.address import Address
from pinlater.client.connection import Connection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallTimeout, ServerUnavailable
from pinlater.worker.claim_table.contact import Contact

FIRST_DELAY_SECONDS = 0.05
LONGEST_DELAY_SECONDS = 1.0
"""Mean of the longest delay: a worker is back within two seconds of its server, however long the server was down."""
CONNECT_SECONDS = 2.0

log = logging.getLogger(__name__)


def ignore_beat() -> None:
    """Do nothing."""


class Connector:
    """Makes connections; logs once when no server is reachable and once when one is again.

    Args:
        servers: the servers to choose from.
        chance: random number from 0 to 1; spreads the retries of processes that lost a server at the same time.
        contact: records successes and failures.
        is_quiet: do not log, since another connector of the same process does.

    Attributes:
        contact: records successes and failures.
    """

    def __init__(
        self,
        servers: ServerSet,
        chance: Callable[[], float] = random.random,
        contact: Contact | None = None,
        *,
        is_quiet: bool = False,
    ) -> None:
        self.contact = contact or Contact()
        self._servers = servers
        self._chance = chance
        self._is_quiet = is_quiet
        self._failures = 0
        self._unanswered = 0
        self._newest: Connection | None = None
        self._is_lost = False

    def connect(self, beat: Callable[[], object] = ignore_beat) -> Connection:
        """Connect to the first server that answers, trying each once.

        Args:
            beat: called before each try.

        Raises:
            ServerUnavailable: none does. ``delay_seconds`` says when to try again.
        """
        for address in self._servers.candidates():
            beat()
            try:
                connection = Connection(address, connect_timeout=CONNECT_SECONDS, tls=self._servers.tls)
            except ServerUnavailable as error:
                self._servers.failed(address)
                failure = error
            else:
                self._servers.worked(address)
                self._on_connected(connection)
                return connection
        self._on_failure(failure)
        raise failure

    @property
    def delay_seconds(self) -> float:
        """Seconds to wait before the next try."""
        self._forget_unanswered()
        grown = FIRST_DELAY_SECONDS * 2.0 ** min(max(self._failures + self._unanswered - 1, 0), 30)
        return min(grown, LONGEST_DELAY_SECONDS) * (0.5 + self._chance())

    def note_failure(self, connection: Connection, error: Exception) -> None:
        """Record that a call failed.

        Another server is tried first next time after a timeout, or if this one has never answered on the connection.
        """
        self.contact.record_failure()
        if isinstance(error, CallTimeout):
            self._servers.leave(connection.address)
        elif not connection.has_answered:
            self._servers.failed(connection.address)
        if not connection.has_answered:
            self._unanswered += 1

    def leave(self, address: Address) -> bool:
        """Try other servers than this one first; return whether to give up the connections to this one."""
        return self._servers.leave(address)

    def log_loss(self, connection: Connection, error: Exception) -> None:
        """Log that a connection in use was lost."""
        self._is_lost = True
        self.note_failure(connection, error)
        log.warning("lost the connection to the server: %s", error)

    def _forget_unanswered(self) -> None:
        """Begin to count anew the connections lost without an answer, once one has had an answer."""
        if self._newest is not None and self._newest.has_answered:
            self._unanswered = 0

    def _on_connected(self, connection: Connection) -> None:
        self._forget_unanswered()
        self._newest = connection
        if (self._failures or self._is_lost) and not self._is_quiet:
            log.info("connected to %s", connection.address)
        self._failures = 0
        self._is_lost = False
        self.contact.record_success()

    def _on_failure(self, failure: ServerUnavailable) -> None:
        self._failures += 1
        self.contact.record_failure()
        if self._failures == 1 and not self._is_quiet:
            log.warning("cannot reach %s; retrying", failure)
