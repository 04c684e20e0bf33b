"""The writer: one connection, and one commit for all waiting requests.

Requests that arrive while a transaction is being written go into the next one. When none is being written, a request
is carried out at once. A thread carries out the transactions, which takes two hand-overs between threads, however many
requests are in one. A small request that is alone does without them: the event loop carries it out itself.

The connection has one owner at a time. The thread owns it from when requests are handed over to it until the loop has
their results. When no request waits, the loop may use it.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pinlater.errors import ServiceError, UnknownError
from pinlater.server.backends.records import CommitStats, Dequeued
from pinlater.server.backends.sqlite import inline_commits
from pinlater.server.backends.sqlite.database import BUSY_TIMEOUT_MS, CHECKPOINT_PAGES
from pinlater.server.backends.sqlite.families import Families
from pinlater.server.backends.sqlite.inline_commits import InlineCommits
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import IdBlock, QueueTraits, SqliteTransaction
from pinlater.server.backends.sqlite.verb import Verb
from pinlater.server.backends.unavailable import ChangeRefused
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

Woken = Mapping[tuple[int, int], int]
"""How many sleeping jobs messages have made due, by queue id and priority."""

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

MAX_REQUESTS = 2000
"""Most requests in one transaction, so that no caller waits for too many others."""

_LOOP_SETTINGS = "PRAGMA wal_autocheckpoint = 0; PRAGMA busy_timeout = 0"
_THREAD_SETTINGS = f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}"
"""In the event loop, a commit neither waits for another program's lock nor copies the log to the database."""


class _Item(NamedTuple):
    order: int
    verb: Verb
    request: Any
    future: asyncio.Future[Any]


_verb_of, _request_of = attrgetter("verb"), attrgetter("request")


class _Commit(NamedTuple):
    stats: CommitStats
    woken: Woken = MappingProxyType({})


class Writer:
    """Carries out verbs in transactions, in its own thread or, if that is quicker, in the event loop.

    Args:
        connection: a connection that only this writer uses from now on.
        verbs: all verbs, in the order in which a transaction carries them out: what makes jobs claimable
            comes before what claims, so that a job stored for a waiting dequeue is handed out at once.
        now_ms: the clock of the store.
        on_commit: called in the event loop with the stats of each transaction.
        on_woken: called with how many sleeping jobs a transaction has made due, after its callers have their results.
        small: by verb, a function that says whether a request may be carried out in the event loop; requests of other
            verbs may not.
        joint: by a pair of verbs, the verb that carries out one request of each, if a transaction has no others.

    Attributes:
        waiting: how many requests have no result yet.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        verbs: Sequence[Verb],
        now_ms: Callable[[], int],
        on_commit: Callable[[CommitStats], None],
        on_woken: Callable[[Woken], None],
        *,
        small: Mapping[Verb, Callable[[Any], bool]],
        joint: Mapping[tuple[Verb, Verb], Verb],
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # one for all statements: creating one takes longer than binding values
        self._order = {verb: position for position, verb in enumerate(verbs)}
        self._now_ms = now_ms
        self._on_commit = on_commit
        self._on_woken = on_woken
        self._small = small
        self._joint = joint
        self._inline_commits = InlineCommits()
        self._is_set_for_loop = False
        self._is_closing = False
        self._ids = IdBlock()
        self._queues = QueueTraits(connection.execute(QUERIES["queue_traits"]))
        self._families = Families()
        self._loop = asyncio.get_running_loop()
        self._pending: list[_Item] = []
        self._inbox: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self.waiting = 0
        self._thread = threading.Thread(target=self._work, name="sqlite-writer", daemon=True)
        self._thread.start()

    def submit(
        self,
        verb: Callable[[SqliteTransaction, Sequence[_Request]], Sequence[_Reply | BaseException]],
        request: _Request,
    ) -> asyncio.Future[_Reply]:
        """Submit a request; return a future of its result, which is done once the change is committed."""
        future: asyncio.Future[_Reply] = self._loop.create_future()
        if not self._pending:
            # In the next turn of the loop, so that all requests of this turn go into one transaction.
            self._loop.call_soon(self._hand_over)
        self._pending.append(_Item(self._order[verb], verb, request, future))
        self.waiting += 1
        return future

    async def close(self) -> None:
        """Finish the submitted requests and end the thread."""
        self._is_closing = True
        self._hand_over()
        self._inbox.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _hand_over(self) -> None:
        batch, self._pending = self._pending, []
        if not batch:
            return
        if not self._may_be_inline(batch):
            self._inbox.put(batch)
            return
        started = time.perf_counter()
        try:
            self._begin(for_loop=True)
        except sqlite3.Error:  # such as another program's lock: the thread can wait for it, and reports other errors
            self._inbox.put(batch)
            return
        batch.sort(key=itemgetter(0))
        commits: list[_Commit] = []
        self._ended(self._transact(batch, commits, begun=started), commits, is_inline=True)

    def _may_be_inline(self, batch: list[_Item]) -> bool:
        """Return whether the batch is one or two small requests, nothing is under way, and commits are fast."""
        if self.waiting != len(batch) or len(batch) > inline_commits.MAX_REQUESTS or self._is_closing:
            return False
        if not self._inline_commits.are_allowed():
            return False
        for _, verb, request, _ in batch:
            is_small = self._small.get(verb)
            if is_small is None or not is_small(request):
                return False
        return True

    # In the thread that owns the connection

    def _begin(self, *, for_loop: bool) -> None:
        if self._is_set_for_loop is not for_loop and not self._connection.in_transaction:
            # Not execute(): these statements take effect when they are compiled, so they must not come from its cache.
            self._connection.executescript(_LOOP_SETTINGS if for_loop else _THREAD_SETTINGS)
            self._is_set_for_loop = for_loop
        self._cursor.execute("BEGIN IMMEDIATE")

    def _transact(
        self, batch: list[_Item], commits: list[_Commit], begun: float | None = None
    ) -> list[tuple[_Item, Any]]:
        """Carry out requests in one transaction; return each with its exception, or with its committed result.

        ``begun`` is when the transaction was begun, if it was already, in ``time.perf_counter`` seconds.
        """
        cursor, started = self._cursor, time.perf_counter() if begun is None else begun
        outcome: list[tuple[_Item, Any]] = []
        is_begun = begun is not None
        try:
            if not is_begun:
                self._begin(for_loop=False)
                is_begun = True
            transaction = SqliteTransaction(cursor, self._now_ms(), self._ids, self._queues, self._families)
            outcome = self._run(batch, transaction)
            cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                seconds, claims = time.perf_counter() - started, _claims_in(outcome)
                commits.append(_Commit(CommitStats(len(batch), seconds, is_failed=True, claims_undone=claims)))
            # A faulty request must not make the others fail: carry out each by itself. None of them is at fault if the
            # transaction could not begin, and each would wait for another program's lock as long as this one did.
            if is_begun and len(batch) > 1:
                return [result for item in batch for result in self._transact([item], commits)]
            return [(item, _translate(error)) for item in batch]
        commits.append(_Commit(CommitStats(len(batch), time.perf_counter() - started), transaction.woken))
        return outcome

    def _run(self, batch: list[_Item], transaction: SqliteTransaction) -> list[tuple[_Item, Any]]:
        if len(batch) == 2 and (joint := self._joint.get((batch[0].verb, batch[1].verb))) is not None:
            return list(zip(batch, joint(transaction, list(map(_request_of, batch))), strict=True))
        outcome: list[tuple[_Item, Any]] = []
        for verb, items in groupby(batch, _verb_of):
            alike = list(items)
            outcome += zip(alike, verb(transaction, list(map(_request_of, alike))), strict=True)
        return outcome

    def _roll_back(self) -> None:
        self._ids.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            log.exception("the transaction could not be rolled back")

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
        batch.sort(key=itemgetter(0))  # stable: requests of a kind keep their order
        commits: list[_Commit] = []
        outcome = self._transact(batch, commits)
        try:
            self._loop.call_soon_threadsafe(self._ended, outcome, commits)
        except RuntimeError:  # the loop is closed: no caller waits any more
            log.debug("results were dropped: the event loop is closed")

    # In the event loop

    def _ended(self, outcome: list[tuple[_Item, Any]], commits: list[_Commit], *, is_inline: bool = False) -> None:
        self.waiting -= len(outcome)
        for stats, _ in commits:
            self._inline_commits.record(stats, is_inline=is_inline)
            self._on_commit(stats)
        for item, result in outcome:
            future = item.future
            if future.cancelled():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        for _, woken in commits:
            if woken:
                # In the next turn of the loop: a dequeue of this commit that found nothing has to learn that first.
                self._loop.call_soon(self._on_woken, woken)


def _claims_in(outcome: list[tuple[_Item, Any]]) -> int:
    return sum(len(result.jobs) for _, result in outcome if isinstance(result, Dequeued))


def _translate(error: Exception) -> Exception:
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, sqlite3.OperationalError):  # such as a full disk; no traceback: the log may be on that disk
        log.warning("requests fail in the store: %s", error)
    else:
        log.error("a request failed in the store: %s", error, exc_info=error)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_FSYNC:  # the change is still in the WAL
        return UnknownError(
            "the disk did not confirm this change, so it was undone; if the server ends before it can store anything, "
            f"the change may come back: {error}"
        )
    kind = ChangeRefused if isinstance(error, sqlite3.OperationalError) else UnknownError
    is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    advice = "; free space on the disk of the server's DATA_DIR" if is_full else ""
    return kind(f"the store could not carry this out, nothing was changed: {error}{advice}")
