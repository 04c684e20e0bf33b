"""Acks: IN_PROGRESS -> SUCCEEDED, PENDING or FAILED."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import Batch
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import Ack, Settled
from pinlater.server.backends.search import Queue

_LAST_MS = 2**63 - 1
_END = "end_jobs"


class AckRequest(NamedTuple):
    """The acks of one call, all for one queue."""

    queue: Queue
    succeeded: Sequence[Ack]
    failed: Sequence[Ack]

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be done twice: a failure without a claim would end the attempt of the next holder."""
        return all(ack.claim is not None for ack in self.failed)


class _Outcome(NamedTuple):
    """What is alike in acks that one statement carries out."""

    priority: int
    claim: str | None
    status: str
    retry_at: int | None = None
    is_final: bool = False


SettleBatch = Batch[AckRequest, Settled]


class Settler:
    """Settles jobs; those that are not in progress, or under another claim, stay as they are.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def settle(self, batch: SettleBatch) -> None:
        """Make one attempt at a batch."""
        async with self._database.transaction() as transaction:
            statements = [list(_statements(transaction, request)) for request in batch.requests]
            flat = [sql for some in statements for _, sql in some]
            if batch.conflicts:
                await transaction.rows("hold_jobs", ids=_ids(batch.requests))
            with batch.committing():
                results = iter(await transaction.run_to_end(*flat) if flat else ())
            counts = [[(name, next(results).matched) for name, _ in some] for some in statements]
        batch.answer(
            [_settled(transaction.now, request, some) for request, some in zip(batch.requests, counts, strict=True)]
        )


def _ids(requests: Sequence[AckRequest]) -> list[int]:
    """Return which jobs are settled, in the order in which all who change jobs take them."""
    return sorted({ack.job.local_id for request in requests for ack in (*request.succeeded, *request.failed)})


def _settled(now: int, request: AckRequest, counts: Sequence[tuple[str, int]]) -> Settled:
    """Return what became of a call, given how many jobs each of its statements has changed."""
    changed = sum(count for _, count in counts)
    failed = sum(count for name, count in counts if name == _END)
    stale = len(request.succeeded) + len(request.failed) - changed
    due = min((_retry_at(now, ack.retry_delay_ms) for ack in request.failed), default=None)
    return Settled(changed, stale, due, failed=failed)


def _retry_at(now: int, delay_ms: int) -> int:
    """Return when a failed job runs again; a delay beyond the end of time must not spoil the other acks."""
    return min(now + max(delay_ms, 0), _LAST_MS)


def _statements(transaction: Transaction, request: AckRequest) -> Iterator[tuple[str, bytes]]:
    """Yield names and statements. Most acks of a call are alike: a statement does for all of those.

    Each failure has two, one for jobs with attempts left, one for the others: so it is known how many failed for good.
    """
    done: defaultdict[_Outcome, list[int]] = defaultdict(list)
    for (_, _, priority, local_id), claim, status, _, _ in request.succeeded:
        done[_Outcome(priority, claim, status)].append(local_id)
    for outcome, ids in done.items():
        name = "succeed_job" if outcome.status else "succeed_jobs"
        yield name, _bind(transaction, name, request.queue, outcome, ids)
    failed: defaultdict[_Outcome, list[int]] = defaultdict(list)
    for (_, _, priority, local_id), claim, status, delay, is_final in request.failed:
        failed[_Outcome(priority, claim, status, _retry_at(transaction.now, delay), is_final)].append(local_id)
    for outcome, ids in failed.items():
        for name in (_END,) if outcome.is_final else ("fail_jobs", _END):
            yield name, _bind(transaction, name, request.queue, outcome, ids)


def _bind(transaction: Transaction, name: str, queue: Queue, outcome: _Outcome, ids: list[int]) -> bytes:
    return transaction.bind(
        name,
        ids=sorted(ids),
        now=transaction.now,
        queue=queue.id,
        priority=outcome.priority,
        is_any=outcome.claim is None,
        claim=None if outcome.claim is None else outcome.claim.encode(),
        status=outcome.status,
        retry_at=outcome.retry_at,
        is_final=outcome.is_final,
    )
