"""Delivers the jobs of an outbox to a server."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from pinlater.client.servers import ServerSet
from pinlater.client.tls import TlsFiles
from pinlater.jobs.batch_size import check_batch_size
from pinlater.outbox.batch import OutboxBatch
from pinlater.outbox.connecting import connector, open_database
from pinlater.outbox.database import Database
from pinlater.outbox.delivery import Delivery, DeliveryClient
from pinlater.outbox.outbox import Outbox
from pinlater.outbox.sessions import is_of_database
from pinlater.outbox.table import RowsChanged, Table
from pinlater.outbox.turn import Settlement
from pinlater.outbox.waker import Waker

_BATCH_SIZE = 500
_STANDBY_SECONDS = 1.0
_RETRY_SECONDS = 1.0
"""How often to look for refused rows that are due to be tried again."""

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0

log = logging.getLogger("pinlater.outbox")


class Relay:
    """Delivers the jobs of an outbox to a server: each job once, in order within its queue, soon after the commit.

    ``pinlater outbox-relay URL`` runs one as a program. If a table has several relays, one delivers, and the others
    wait for it to end. In your own process, run it in a thread::

        relay = Relay(outbox, "postgresql://shop@db/shop")
        threading.Thread(target=relay.run).start()
        ...
        relay.stop()

    Args:
        outbox: the outbox whose jobs to deliver.
        database: a URL; an ``Engine`` of SQLAlchemy; ``connection`` of ``django.db``; or a function that returns a new
            connection of a driver.
        servers: as in ``Client``.
        tls: as in ``Client``.
        source: as in ``Client``.
        batch_size: maximum number of jobs to deliver at once.

    Raises:
        ConfigError: ``database`` or ``servers`` cannot be read, or there is no driver; the message says what to write.
        ValueError: ``batch_size`` is below 1.
    """

    def __init__(
        self,
        outbox: Outbox,
        database: Any,
        servers: str | Sequence[str] | ServerSet | None = None,
        *,
        tls: TlsFiles | None = None,
        source: str | None = None,
        batch_size: int = _BATCH_SIZE,
    ) -> None:
        check_batch_size(batch_size)
        self._outbox = outbox
        self._connect = connector(database)
        self._client = DeliveryClient(ServerSet.of(servers, tls), source)
        self._delivery = Delivery(self._client)
        self._batch_size = batch_size
        self._waker = Waker()
        self._pause_seconds = 0.0
        self._has_begun = False
        self._delivered = 0

    def run(self) -> int:
        """Deliver jobs until ``stop`` is called, despite failures of the database and the servers; return how many.

        Raises:
            ConfigError: the database cannot have a relay.
            TypeError: the driver is not supported.
        """
        return self._run(until_empty=False)

    def run_until_empty(self) -> int:
        """Deliver jobs until the outbox has none left except refused ones; return how many were delivered.

        Raises:
            ConfigError: the database cannot have a relay.
            TypeError: the driver is not supported.
            Exception: an error of the driver: the database could not be used for some seconds, or has no such table.
        """
        return self._run(until_empty=True)

    def stop(self) -> None:
        """End ``run`` after the current batches; to be called from another thread or a signal handler."""
        self._waker.set()

    def _run(self, *, until_empty: bool) -> int:
        self._delivered, self._pause_seconds, is_done = 0, 0.0, False
        with self._waker, closing(self._client):
            while not is_done and not self._waker.is_set:
                try:
                    with closing(open_database(self._connect)) as database:
                        is_mine = self._is_locked(database, until_empty=until_empty)
                        is_done = not is_mine or self._serve(database, until_empty=until_empty)
                except Exception as error:
                    if not is_of_database(error) or (until_empty and self._pause_seconds == _LONGEST_PAUSE_SECONDS):
                        raise
                    self._wait_for_database(error)
        return self._delivered

    def _wait_for_database(self, error: Exception) -> None:
        self._pause_seconds = min(max(self._pause_seconds * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._has_begun = False
        log.warning(
            "the database of the outbox: %s; is it running, and has it a table %s (pinlater outbox-table)? "
            "Trying again in %.1f s", error, self._outbox.table, self._pause_seconds,
        )  # fmt: skip
        self._waker.wait(self._pause_seconds)

    def _serve(self, database: Database, *, until_empty: bool) -> bool:
        """Deliver until ``stop`` is called or, with ``until_empty``, nothing is left; return whether that is so."""
        if self._outbox.notify:
            database.listen(self._outbox.table)
        table = Table(database, self._outbox.table, self._batch_size)
        before, retry_at, is_empty = Settlement(), 0.0, False
        while not self._waker.is_set and not is_empty:
            if time.monotonic() >= retry_at:
                table.retry_refused()
                self._is_at_work()
                retry_at = time.monotonic() + _RETRY_SECONDS
            batches = self._settle(table, before)
            before = self._deliver(batches)
            if not batches and until_empty:
                is_empty = True
            elif not batches:
                database.wait(self._waker, retry_at - time.monotonic())
        self._settle(table, before, goes_on=False)
        return is_empty

    def _is_at_work(self) -> None:
        """Record that the table exists and the lock is taken."""
        if not self._has_begun:
            log.info("delivers the jobs of %s", self._outbox.table)
        self._has_begun, self._pause_seconds = True, 0.0

    def _is_locked(self, database: Database, *, until_empty: bool) -> bool:
        """Wait for the lock; return False if stopped or, with ``until_empty``, if another relay has left nothing."""
        is_told = False
        while not database.lock(self._outbox.table):
            if not is_told:
                log.info("another relay delivers the jobs of %s; waiting for its end", self._outbox.table)
                is_told = True
            if (until_empty and self._is_empty(database)) or self._waker.wait(_STANDBY_SECONDS):
                return False
        return True

    def _is_empty(self, database: Database) -> bool:
        waiting = Table(database, self._outbox.table, self._batch_size).waiting()
        return waiting.jobs == waiting.refused

    def _settle(self, table: Table, before: Settlement, *, goes_on: bool = True) -> list[OutboxBatch]:
        """Write what became of the last batches; return the next ones."""
        while True:
            try:
                batches = table.turn(before, goes_on=goes_on)
            except RowsChanged:
                continue
            self._delivered += sum(len(batch.ids) for batch in before.delivered)
            return batches

    def _deliver(self, batches: list[OutboxBatch]) -> Settlement:
        """Deliver batches; return what became of them, after a pause if the server is to recover."""
        settlement = self._delivery.deliver(batches)
        if settlement.pause_seconds:
            self._waker.wait(settlement.pause_seconds)
        return settlement
