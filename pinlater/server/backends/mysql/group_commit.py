"""Group commit: requests of one kind share a transaction, and only one such transaction is in flight at a time.

Requests that arrive while it is in flight form the next batch; if none is in flight, a request starts one at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, Generic, TypeVar

from pinlater.errors import ServiceError, UnknownError
from pinlater.server.backends.mysql.errors import (
    ConnectFailed,
    ConnectionLost,
    LockTimeout,
    PacketNotSent,
    SchemaMissing,
    StatementRejected,
    TransactionConflict,
    UnusableServer,
    conflict_backoff,
    connection_failed,
    too_many_conflicts,
    unreachable,
)
from pinlater.server.backends.records import CommitStats

log = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")

ATTEMPT_SECONDS = 4.0
"""Timeout for one transaction, including connecting."""

RETRY_SECONDS = 4.5
"""A request that has waited for this long is not retried, except once after its first conflict, and not for longer than
the sum of both.
"""

RECONNECT_SECONDS = 0.2
"""Pause between two attempts to reach a server that may have committed a batch."""


class CommitBatch(Generic[Q, R]):
    """Requests that share a transaction, over all its attempts.

    Attributes:
        requests: in the order of arrival.
        is_uncertain: whether an earlier attempt may have been committed.
        conflicts: how many attempts met conflicts, not counting lock timeouts: the extra locks that a batch takes to
            avoid another conflict would block others while it waits for a lock.
        since: when each request arrived, in seconds of the event loop's time.
        is_answered: whether results or errors were delivered; after that there are no more attempts.
    """

    def __init__(self, requests: Sequence[Q], futures: Sequence[asyncio.Future[R]], since: Sequence[float]) -> None:
        self.requests = requests
        self.is_uncertain = False
        self.conflicts = 0
        self.since = since
        self._futures = futures
        self.is_answered = False

    def answer(self, results: Sequence[R | Exception]) -> None:
        """Deliver committed results and the errors of single requests."""
        if self.is_answered:
            return
        self.is_answered = True
        for future, result in zip(self._futures, results, strict=True):
            if future.cancelled():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def fail(self, error: Exception) -> None:
        """Deliver an error to all requests."""
        self.answer([error] * len(self.requests))

    def drop_unrepeatable(self, is_repeatable: Callable[[Q], bool], error: Exception) -> None:
        """Deliver an error to requests that may have been committed and must not be repeated; keep the others."""
        kept = [not self.is_uncertain or is_repeatable(request) for request in self.requests]
        for future, is_kept in zip(self._futures, kept, strict=True):
            if not is_kept and not future.cancelled():
                future.set_exception(error)
        self.requests = [*compress(self.requests, kept)]
        self._futures = [*compress(self._futures, kept)]
        self.since = [*compress(self.since, kept)]

    def split(self) -> list[CommitBatch[Q, R]]:
        """Return a batch for each request."""
        parts = zip(self.requests, self._futures, self.since, strict=True)
        batches = [CommitBatch([request], [future], [since]) for request, future, since in parts]
        for batch in batches:
            batch.is_uncertain = self.is_uncertain
        return batches

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Mark the batch as uncertain if the block fails, unless the error proves that nothing was changed."""
        try:
            yield
        except (TransactionConflict, ServiceError, PacketNotSent, UnusableServer, SchemaMissing):
            raise
        except BaseException:
            self.is_uncertain = True
            raise


def _seconds_left(batch: CommitBatch[Q, R]) -> float:
    """Return how long the oldest request of a batch may still wait."""
    return min(batch.since) + RETRY_SECONDS + ATTEMPT_SECONDS - asyncio.get_running_loop().time()


class BusyCommits(set["GroupCommit[Any, Any]"]):
    """The group commits of a shard that are at work: usually a few, however many queues have one."""

    @property
    def waiting(self) -> int:
        """Number of their requests without a result."""
        return sum(commit.waiting for commit in self)

    async def finish(self) -> None:
        """Wait until all submitted requests are answered."""
        await asyncio.gather(*(commit.finish() for commit in self))


class GroupCommit(Generic[Q, R]):
    """Commits requests batch by batch.

    Args:
        shard: name of the shard, for errors.
        attempt: attempts a batch in one transaction, and answers it.
        max_requests: most requests per batch.
        max_weight: largest sum of weights in a batch of several requests.
        busy: contains this group commit while requests are queued or in flight; several may share the set.
        on_commit: called after each transaction.
        is_repeatable: whether a request whose outcome is unknown may be committed again.
    """

    def __init__(
        self,
        shard: str,
        attempt: Callable[[CommitBatch[Q, R]], Awaitable[None]],
        *,
        busy: BusyCommits,
        max_requests: int = 2000,
        max_weight: int = 8_000_000,
        on_commit: Callable[[CommitStats], None] = lambda _: None,
        is_repeatable: Callable[[Q], bool] = lambda _: True,
    ) -> None:
        self._shard = shard
        self._attempt = attempt
        self._is_repeatable = is_repeatable
        self._max_requests = max_requests
        self._max_weight = max_weight
        self._busy = busy
        self._on_commit = on_commit
        self._queued: deque[tuple[Q, asyncio.Future[R], float, int]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._batches: Sequence[CommitBatch[Q, R]] = ()  # in flight: one, or its parts
        self._is_failing = False

    @property
    def waiting(self) -> int:
        """Number of requests without a result."""
        return len(self._queued) + sum(len(batch.requests) for batch in self._batches if not batch.is_answered)

    @property
    def is_idle(self) -> bool:
        """Whether no request is queued or in flight."""
        return self._task is None

    def submit(self, request: Q, weight: int = 0) -> asyncio.Future[R]:
        """Return the future result of a request; cancelling it does not cancel the request."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._queued.append((request, future, loop.time(), weight))
        if self._task is None:  # it starts in the loop's next turn, so the first batch has all requests of this turn
            self._task = loop.create_task(self._run())
            self._busy.add(self)
        return future

    async def finish(self) -> None:
        """Wait until all submitted requests are answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._queued:
                batch = self._next_batch()
                self._batches = [batch]
                await self._commit(batch)
                self._fail_overdue()
        finally:
            self._batches = ()
            self._task = None
            self._busy.discard(self)

    def _fail_overdue(self) -> None:
        """After a failure, fail queued requests that have waited too long; they were not sent, so may go elsewhere."""
        if not self._is_failing:
            return
        overdue = asyncio.get_running_loop().time() - RETRY_SECONDS
        while self._queued and self._queued[0][2] <= overdue:
            _, future, _, _ = self._queued.popleft()
            if not future.cancelled():
                future.set_exception(unreachable(self._shard, TimeoutError()))

    def _next_batch(self) -> CommitBatch[Q, R]:
        requests: list[Q] = []
        futures: list[asyncio.Future[R]] = []
        since: list[float] = []
        weight_left = self._max_weight
        while self._queued and len(requests) < self._max_requests:
            request, future, at, weight = self._queued[0]
            if requests and weight > weight_left:
                break
            self._queued.popleft()
            weight_left -= weight
            requests.append(request)
            futures.append(future)
            since.append(at)
        return CommitBatch(requests, futures, since)

    async def _commit(self, batch: CommitBatch[Q, R]) -> None:
        """Attempt a batch until it is committed or given up."""
        started, seconds = time.perf_counter(), ATTEMPT_SECONDS
        while True:
            try:
                async with asyncio.timeout(seconds):
                    await self._attempt(batch)
            except Exception as error:  # noqa: BLE001 - delivered to the callers
                if not isinstance(error, TransactionConflict | ConnectFailed):
                    self._on_commit(CommitStats(len(batch.requests), time.perf_counter() - started, is_failed=True))
                if await self._shall_retry(batch, error):
                    seconds = min(ATTEMPT_SECONDS, _seconds_left(batch))
                    continue
            else:
                self._is_failing = False
                self._on_commit(CommitStats(len(batch.requests), time.perf_counter() - started))
            return

    async def _shall_retry(self, batch: CommitBatch[Q, R], error: Exception) -> bool:
        """After a failed attempt, back off and return True if the batch is to be retried; otherwise answer it."""
        seconds_left = 0.0 if batch.is_answered else _seconds_left(batch)
        is_in_time = seconds_left > ATTEMPT_SECONDS
        # When a database that stood still goes on, attempts meet each other, and calls meet their own repeats, which
        # the next attempt finds.
        is_first_conflict = seconds_left > 0 and not batch.conflicts and not isinstance(error, LockTimeout)
        match error:
            case ConnectFailed() if is_in_time and batch.is_uncertain:
                await asyncio.sleep(RECONNECT_SECONDS)
            case ConnectFailed():
                self._fail(batch, error)
                return False
            case ConnectionLost() | TimeoutError() if is_in_time:
                batch.drop_unrepeatable(self._is_repeatable, connection_failed(self._shard, error))
                self._is_failing |= not batch.requests
                return bool(batch.requests)
            case LockTimeout() if is_in_time:
                pass
            case TransactionConflict() if is_in_time or is_first_conflict:
                batch.conflicts += 1
                await asyncio.sleep(conflict_backoff(batch.conflicts))
            case StatementRejected() if len(batch.requests) > 1 and not batch.is_answered:
                self._batches = batch.split()
                for part in self._batches:  # one by one, so that one bad request does not fail the others
                    await self._commit(part)
                return False
            case _:
                self._fail(batch, error)
                return False
        return True

    def _fail(self, batch: CommitBatch[Q, R], error: Exception) -> None:
        """Answer a batch with an error that says whether anything may have been changed."""
        self._is_failing |= isinstance(error, ConnectionLost | TimeoutError)
        if isinstance(error, StatementRejected):
            log.error("shard %s: %s", self._shard, error)
        elif not isinstance(error, ConnectionLost | TimeoutError | TransactionConflict | ServiceError):
            log.error("shard %s: a transaction failed", self._shard, exc_info=error)
        batch.fail(connection_failed(self._shard, error) if batch.is_uncertain else self._public_error(error))

    def _public_error(self, error: Exception) -> ServiceError:
        match error:
            case ConnectFailed():
                return unreachable(self._shard, error)
            case ConnectionLost() | TimeoutError():
                return connection_failed(self._shard, error)
            case TransactionConflict():
                return too_many_conflicts(error)
            case ServiceError():
                return error
        return UnknownError(f"the store failed: {type(error).__name__}: {error}")
