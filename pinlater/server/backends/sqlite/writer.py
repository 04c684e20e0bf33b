"""The writer: one thread, one connection, one commit for everything that waits.

While a transaction is being written, all that arrives is gathered for the next. When nothing is being
written, a request goes through at once. Two hand-overs between threads carry a whole transaction, however
many calls are in it.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from pinlater.errors import ServiceError, UnknownError
from pinlater.server.backends.contract import CommitStats
from pinlater.server.backends.sqlite.transaction import IdBlock, Transaction
from pinlater.server.seldom import Seldom

log = logging.getLogger(__name__)
log.addFilter(Seldom())

Verb = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""Carries out all requests of one kind in a transaction; returns a result for each."""

MAX_REQUESTS = 2000
"""Most requests in one transaction, so that no caller waits for too many others."""


class _Item(NamedTuple):
    order: int
    verb: Verb
    request: Any
    future: asyncio.Future[Any]


class Writer:
    """Carries out verbs in transactions.

    Args:
        connection: to be used by this writer alone from now on.
        verbs: all verbs, in the order in which a transaction carries them out: what makes jobs claimable
            stands before what claims, so that a job stored for a waiting dequeue is handed over at once.
        now_ms: the clock of the store.
        on_commit: is told of each transaction, in the event loop.
        early: verbs whose results are delivered before the commit, because losing them does no harm.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        verbs: Sequence[Verb],
        now_ms: Callable[[], int],
        on_commit: Callable[[CommitStats], None],
        *,
        early: Collection[Verb] = (),
    ) -> None:
        self._connection = connection
        self._early = frozenset(early)
        self._order = {verb: position for position, verb in enumerate(verbs)}
        self._now_ms = now_ms
        self._on_commit = on_commit
        self._ids = IdBlock()
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Item] = []
        self._inbox: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._early_until: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._work, name="sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Requests that have no result yet."""
        return self._waiting

    def submit(self, verb: Verb, request: Any) -> asyncio.Future[Any]:
        """Return the future result of a request; unless its verb is an early one, it is on disk when it is done."""
        future = self._loop.create_future()
        if not self._gathered:
            # One turn of the loop later, so that whatever this turn still submits goes along.
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Item(self._order[verb], verb, request, future))
        self._waiting += 1
        return future

    async def caught_up(self) -> None:
        """Wait until all that was delivered is committed, so that whoever reads now sees it."""
        if self._early_until is not None:
            await asyncio.shield(self._early_until)

    async def close(self) -> None:
        """Finish what was submitted and end the thread."""
        self._hand_over()
        self._inbox.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _hand_over(self) -> None:
        if self._gathered:
            self._inbox.put(self._gathered)
            self._gathered = []

    # In the writer thread

    def _work(self) -> None:
        while True:
            items = self._inbox.get()
            is_last = items is None
            batch = list(items or ())
            while not is_last and len(batch) < MAX_REQUESTS:
                try:
                    more = self._inbox.get_nowait()
                except queue.Empty:
                    break
                is_last = more is None
                batch += more or ()
            if batch:
                self._write(batch)
            if is_last:
                self._connection.close()
                return

    def _write(self, batch: list[_Item]) -> None:
        started = time.perf_counter()
        batch.sort(key=lambda item: item.order)  # stable: requests of a kind keep their order
        outcome = self._transact(batch)
        self._in_loop(self._committed, len(batch), CommitStats(len(batch), time.perf_counter() - started), outcome)

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.debug("results had nobody to go to")

    def _transact(self, batch: list[_Item]) -> list[tuple[_Item, Any]]:
        """Carry out requests; return each with its result or exception, those left out that have it already."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            outcome = self._run(batch, Transaction(connection, self._now_ms(), self._ids))
            batch, outcome = self._without_early(outcome)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - handed to whoever asked
            self._roll_back()
            if len(batch) > 1:  # one request's fault must not hurt the others: each by itself
                return [result for item in batch for result in self._transact([item])]
            return [(item, _translate(error)) for item in batch]
        return outcome

    def _without_early(self, outcome: list[tuple[_Item, Any]]) -> tuple[list[_Item], list[tuple[_Item, Any]]]:
        """Deliver the early results; return the other items, alone and with their results.

        Should the commit fail, or never come, then jobs were handed out that are still pending, and so are
        handed out again: what at-least-once allows, and what a lost answer would have done as well.
        """
        early = [entry for entry in outcome if entry[0].verb in self._early]
        rest = [entry for entry in outcome if entry[0].verb not in self._early] if early else outcome
        if early:
            self._in_loop(self._deliver_early, early)
        return [item for item, _ in rest], rest

    def _run(self, batch: list[_Item], transaction: Transaction) -> list[tuple[_Item, Any]]:
        results: list[Any] = []
        start = 0
        while start < len(batch):
            verb = batch[start].verb
            end = start
            while end < len(batch) and batch[end].verb is verb:
                end += 1
            results += verb(transaction, [item.request for item in batch[start:end]])
            start = end
        return list(zip(batch, results, strict=True))

    def _roll_back(self) -> None:
        self._ids.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            log.exception("the transaction could not be rolled back")

    # In the event loop

    def _committed(self, requests: int, stats: CommitStats, outcome: list[tuple[_Item, Any]]) -> None:
        self._waiting -= requests
        if self._early_until is not None:
            self._early_until.set_result(None)
            self._early_until = None
        self._on_commit(stats)
        self._deliver(outcome)

    def _deliver_early(self, outcome: list[tuple[_Item, Any]]) -> None:
        if self._early_until is None:
            self._early_until = self._loop.create_future()
        self._deliver(outcome)

    @staticmethod
    def _deliver(outcome: list[tuple[_Item, Any]]) -> None:
        for item, result in outcome:
            future = item.future
            if future.cancelled():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


def _translate(error: Exception) -> Exception:
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, sqlite3.OperationalError):  # of the machine, such as a full disk, which a log may be on, too
        log.warning("requests fail in the store: %s", error)
    else:
        log.error("a request failed in the store: %s", error, exc_info=error)
    return UnknownError(f"the store could not carry this out, nothing was changed: {error}")
