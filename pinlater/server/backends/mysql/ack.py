"""Acks: IN_PROGRESS -> SUCCEEDED, PENDING or FAILED."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pinlater.model.attempts import StoredAck
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.keys import Changed, change_and_commit, with_keys_if_needed
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Settled
from pinlater.server.backends.search import Queue

_LAST_MS = 2**63 - 1
_FINAL = "fail_jobs"


class MysqlAckCall(NamedTuple):
    """The acks of one call, all for one queue."""

    queue: Queue
    succeeded: Sequence[StoredAck]
    failed: Sequence[StoredAck]

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be committed twice: a failure without a claim would end the attempt of the next holder."""
        return all(ack.claim is not None for ack in self.failed)


class _Outcome(NamedTuple):
    """The fields that acks of one statement have in common."""

    priority: int
    claim: str | None
    status: str
    retry_at: int | None = None
    is_final: bool = False


async def ack_jobs(database: Database, batch: CommitBatch[MysqlAckCall, Settled]) -> None:
    """Attempt the acks of a batch; jobs that are not in progress, or under another claim, stay as they are."""
    await with_keys_if_needed(database, batch, partial(_ack_jobs, database, batch))


async def _ack_jobs(database: Database, batch: CommitBatch[MysqlAckCall, Settled], has_keys: bool) -> Changed:
    async with database.transaction() as transaction:
        statements = [list(_statements(transaction, call, has_keys=has_keys)) for call in batch.requests]
        flat = [sql for some in statements for _, sql in some]
        ids = _ids(batch.requests) if has_keys or batch.conflicts else None
        if batch.conflicts:
            await transaction.rows("lock_jobs", ids=ids)
        changed = await change_and_commit(transaction, batch, flat, ids if has_keys else None)
        results = iter(changed.results)
        counts = [[(name, next(results).matched) for name, _ in some] for some in statements]
    settled = (_settled(transaction.now, call, some) for call, some in zip(batch.requests, counts, strict=True))
    batch.answer(
        [
            one._replace(let_through=changed.let_through(_ids([call]))) if changed.through else one
            for one, call in zip(settled, batch.requests, strict=True)
        ]
    )
    return changed


def _ids(calls: Sequence[MysqlAckCall]) -> list[int]:
    """Return the ids of all jobs in the order in which transactions lock them."""
    return sorted({ack.job.local_id for call in calls for ack in (*call.succeeded, *call.failed)})


def _settled(now: int, call: MysqlAckCall, counts: Sequence[tuple[str, int]]) -> Settled:
    """Return the result of a call, given the number of jobs that each of its statements has changed."""
    changed = sum(count for _, count in counts)
    failed = sum(count for name, count in counts if name == _FINAL)
    stale = len(call.succeeded) + len(call.failed) - changed
    due = min((_retry_at(now, ack.retry_delay_ms) for ack in call.failed), default=None)
    return Settled(changed, stale, due, failed=failed)


def _retry_at(now: int, delay_ms: int) -> int:
    """Return when a failed job is retried; an excessive delay is cut, so that it does not fail the other acks."""
    return min(now + max(delay_ms, 0), _LAST_MS)


def _statements(transaction: MysqlTransaction, call: MysqlAckCall, *, has_keys: bool) -> Iterator[tuple[str, bytes]]:
    """Yield names and statements, one for all acks with the same outcome, which most acks of a call have.

    A failure has two, for jobs with attempts left and for the others: their counts tell how many are FAILED.
    """
    succeeded: defaultdict[_Outcome, list[int]] = defaultdict(list)
    for (_, _, priority, local_id), claim, status, *_ in call.succeeded:
        succeeded[_Outcome(priority, claim, status)].append(local_id)
    for outcome, ids in succeeded.items():
        name = "succeed_job" if outcome.status else "succeed_jobs"
        yield name, _bind(transaction, name, call.queue, outcome, ids, has_keys=has_keys)
    failed: defaultdict[_Outcome, list[int]] = defaultdict(list)
    for (_, _, priority, local_id), claim, status, delay, is_final, *_ in call.failed:
        failed[_Outcome(priority, claim, status, _retry_at(transaction.now, delay), is_final)].append(local_id)
    for outcome, ids in failed.items():
        for name in (_FINAL,) if outcome.is_final else ("fail_attempts", _FINAL):
            yield name, _bind(transaction, name, call.queue, outcome, ids, has_keys=has_keys)


def _bind(
    transaction: MysqlTransaction, name: str, queue: Queue, outcome: _Outcome, ids: list[int], *, has_keys: bool
) -> bytes:
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
        has_keys=has_keys,
    )
