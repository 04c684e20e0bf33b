"""A lane: requests of one kind, many in one transaction, one transaction after the other.

While a transaction is under way, all that arrives is gathered for the next; when none is, a request sets out at once.
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
    Blocked,
    Conflict,
    Lost,
    Refused,
    Unreached,
    connection_failed,
    pause_seconds,
    unreachable,
)
from pinlater.server.backends.records import CommitStats

log = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")

ATTEMPT_SECONDS = 4.0
"""One transaction, connecting included, gets no longer than this."""

PATIENCE_SECONDS = 4.5
"""A request that has waited for so long is not tried once more; so nobody waits longer than both together."""

PAUSE_SECONDS = 0.2
"""Between two tries to reach a server that may have done what was asked of it."""


class Batch(Generic[Q, R]):
    """Requests that share a transaction, through all its attempts.

    Attributes:
        requests: in the order of arrival.
        is_uncertain: an attempt before this one may have been committed.
        conflicts: attempts that other transactions were in the way of, but for those that were waited for in vain: what
            this one would lock to have its way, others would wait for then.
        since: when each request arrived, in seconds of the loop's time.
        is_answered: whether the results, or errors, were delivered; then no other attempt is made.
    """

    def __init__(self, requests: Sequence[Q], futures: Sequence[asyncio.Future[R]], since: Sequence[float]) -> None:
        self.requests = requests
        self.is_uncertain = False
        self.conflicts = 0
        self.since = since
        self._futures = futures
        self.is_answered = False

    def answer(self, results: Sequence[R | Exception]) -> None:
        """Deliver the results, which are committed."""
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
        """Deliver an error to everybody."""
        self.answer([error] * len(self.requests))

    def give_up(self, is_repeatable: Callable[[Q], bool], error: Exception) -> None:
        """Deliver an error to those that may have been done and must not be done twice; the others stay."""
        kept = [not self.is_uncertain or is_repeatable(request) for request in self.requests]
        for future, is_kept in zip(self._futures, kept, strict=True):
            if not is_kept and not future.cancelled():
                future.set_exception(error)
        self.requests = [*compress(self.requests, kept)]
        self._futures = [*compress(self._futures, kept)]
        self.since = [*compress(self.since, kept)]

    def split(self) -> list[Batch[Q, R]]:
        """Return a batch for each request."""
        parts = zip(self.requests, self._futures, self.since, strict=True)
        batches = [Batch([request], [future], [since]) for request, future, since in parts]
        for batch in batches:
            batch.is_uncertain = self.is_uncertain
        return batches

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Take note that what goes wrong within may have been done, unless the database says that it was not."""
        try:
            yield
        except (Conflict, ServiceError):
            raise
        except BaseException:
            self.is_uncertain = True
            raise


class Lane(Generic[Q, R]):
    """Carries out requests batch by batch.

    Args:
        shard: its name, for errors.
        work: makes one attempt at a batch, in one transaction, and answers it.
        most: requests in one batch.
        most_weight: the sum of their weights; a batch has one request at least.
        on_commit: is told of each transaction.
        is_repeatable: whether a request may be carried out twice, when nobody knows whether it was.
    """

    def __init__(
        self,
        shard: str,
        work: Callable[[Batch[Q, R]], Awaitable[None]],
        *,
        most: int = 2000,
        most_weight: int = 8_000_000,
        on_commit: Callable[[CommitStats], None] = lambda _: None,
        is_repeatable: Callable[[Q], bool] = lambda _: True,
    ) -> None:
        self._shard = shard
        self._work = work
        self._is_repeatable = is_repeatable
        self._most = most
        self._most_weight = most_weight
        self._on_commit = on_commit
        self._gathered: deque[tuple[Q, asyncio.Future[R], float, int]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._batch: Batch[Q, R] | None = None
        self._is_failing = False

    @property
    def waiting(self) -> int:
        """Requests that have no result yet."""
        under_way = 0 if self._batch is None or self._batch.is_answered else len(self._batch.requests)
        return len(self._gathered) + under_way

    def submit(self, request: Q, weight: int = 0) -> asyncio.Future[R]:
        """Return the future result of a request; cancelling it leaves the work alone."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._gathered.append((request, future, loop.time(), weight))
        if self._running is None:  # a task starts in the next turn: what this turn still submits goes along
            self._running = loop.create_task(self._run())
        return future

    async def finish(self) -> None:
        """Wait until everything that was submitted has an answer."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._gathered:
                self._batch = self._next()
                await self._carry_out(self._batch)
                self._turn_away()
        finally:
            self._batch = None
            self._running = None

    def _turn_away(self) -> None:
        """After a failure, let those go who have waited for long: nothing was sent for them, so others may help."""
        if not self._is_failing:
            return
        too_old = asyncio.get_running_loop().time() - PATIENCE_SECONDS
        while self._gathered and self._gathered[0][2] <= too_old:
            _, future, _, _ = self._gathered.popleft()
            if not future.cancelled():
                future.set_exception(unreachable(self._shard, TimeoutError()))

    def _next(self) -> Batch[Q, R]:
        requests: list[Q] = []
        futures: list[asyncio.Future[R]] = []
        since: list[float] = []
        room = self._most_weight
        while self._gathered and len(requests) < self._most:
            request, future, at, weight = self._gathered[0]
            if requests and weight > room:
                break
            self._gathered.popleft()
            room -= weight
            requests.append(request)
            futures.append(future)
            since.append(at)
        return Batch(requests, futures, since)

    async def _carry_out(self, batch: Batch[Q, R]) -> None:
        started = time.perf_counter()
        while True:
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS):
                    await self._work(batch)
            except Exception as error:  # noqa: BLE001 - handed to whoever asked
                if not isinstance(error, Conflict | Unreached):
                    self._on_commit(CommitStats(len(batch.requests), time.perf_counter() - started, is_failed=True))
                if await self._is_repeated(batch, error):
                    continue
            else:
                self._is_failing = False
                self._on_commit(CommitStats(len(batch.requests), time.perf_counter() - started))
            return

    async def _is_repeated(self, batch: Batch[Q, R], error: Exception) -> bool:
        """After a failed attempt, return True when it is time for another one; or answer the batch."""
        is_patient = not batch.is_answered and self._is_patient(batch)
        match error:
            case Unreached() if is_patient and batch.is_uncertain:
                await asyncio.sleep(PAUSE_SECONDS)
            case Unreached():
                self._fail(batch, error)
                return False
            case Lost() | TimeoutError() if is_patient:
                batch.give_up(self._is_repeatable, connection_failed(self._shard, error))
                self._is_failing |= not batch.requests
                return bool(batch.requests)
            case Blocked() if is_patient:
                pass
            case Conflict() if is_patient:
                batch.conflicts += 1
                await asyncio.sleep(pause_seconds(batch.conflicts))
            case Refused() if len(batch.requests) > 1 and not batch.is_answered:
                for part in batch.split():  # one request's fault must not hurt the others: each by itself
                    await self._carry_out(part)
                return False
            case _:
                self._fail(batch, error)
                return False
        return True

    @staticmethod
    def _is_patient(batch: Batch[Any, Any]) -> bool:
        return asyncio.get_running_loop().time() - min(batch.since) < PATIENCE_SECONDS

    def _fail(self, batch: Batch[Q, R], error: Exception) -> None:
        """Answer with what is known: that nothing was changed, or that something may have been."""
        self._is_failing |= isinstance(error, Lost | TimeoutError)
        if isinstance(error, Refused):
            log.error("shard %s: %s", self._shard, error)
        elif not isinstance(error, Lost | TimeoutError | Conflict | ServiceError):
            log.error("shard %s: a transaction failed", self._shard, exc_info=error)
        batch.fail(connection_failed(self._shard, error) if batch.is_uncertain else self._said_of(error))

    def _said_of(self, error: Exception) -> ServiceError:
        match error:
            case Unreached():
                return unreachable(self._shard, error)
            case Lost() | TimeoutError():
                return connection_failed(self._shard, error)
            case Conflict():
                return UnknownError(f"other transactions are in the way, nothing was changed: {error}")
            case ServiceError():
                return error
        return UnknownError(f"the store could not carry this out: {type(error).__name__}: {error}")
