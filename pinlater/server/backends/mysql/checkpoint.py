"""Checkpoints: renew a claim, save progress, or return a job to PENDING."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pinlater.model.attempts import StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.claim_names import source_of
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.keys import (
    Changed,
    change_and_commit,
    keys_of,
    let_next_through,
    with_keys_if_needed,
)
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Settled
from pinlater.server.backends.search import Queue


class MysqlCheckpointCall(NamedTuple):
    """The checkpoints of one call, all for one queue."""

    queue: Queue
    checkpoints: Sequence[StoredCheckpoint]

    @property
    def weight(self) -> int:
        """Bytes that it adds to a transaction."""
        return sum(len(item.body or b"") for item in self.checkpoints) + 300 * len(self.checkpoints)

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be committed twice."""
        return all(item.is_repeatable for item in self.checkpoints)


async def checkpoint_jobs(database: Database, batch: CommitBatch[MysqlCheckpointCall, Settled]) -> None:
    """Attempt the checkpoints of a batch: IN_PROGRESS -> IN_PROGRESS with a new lease, or PENDING."""
    await with_keys_if_needed(database, batch, partial(_checkpoint_jobs, database, batch))


async def _checkpoint_jobs(
    database: Database,
    batch: CommitBatch[MysqlCheckpointCall, Settled],
    has_keys: bool,
) -> Changed:
    async with database.transaction() as transaction:
        if batch.conflicts:
            await transaction.rows("lock_jobs", ids=_ids(batch.requests))
        claims = [await _claims_by_source(transaction, call) for call in batch.requests]
        statements = [
            list(_statements(transaction, call, held, has_keys=has_keys))
            for call, held in zip(batch.requests, claims, strict=True)
        ]
        flat = [statement for some in statements for statement in some]
        returned = _returned_ids(batch.requests) if has_keys else None
        changed = await change_and_commit(transaction, batch, flat, returned)
        results = iter(changed.results)
        counts = [[next(results).matched for _ in some] for some in statements]
    settled = (_settled(transaction.now, call, some) for call, some in zip(batch.requests, counts, strict=True))
    batch.answer(
        [
            one._replace(let_through=changed.let_through(_returned_ids([call]))) if changed.through else one
            for one, call in zip(settled, batch.requests, strict=True)
        ]
    )
    return changed


async def lost_jobs(database: Database, call: MysqlCheckpointCall) -> tuple[JobDescriptor, ...]:
    """Return the jobs that their checkpoints' claims no longer hold, except those to return to PENDING.

    To be called if some were stale: a statement for many jobs returns how many it has changed, but not which.
    """
    items = [item for item in call.checkpoints if not item.move_to_pending]
    ids = sorted({item.job.local_id for item in items})
    if not ids:
        return ()
    held = dict(await database.rows(database.queries.bind("claims_of_jobs", ids=ids, queue=call.queue.id)))
    return tuple(item.job for item in items if _claim_of(item, held) != held.get(item.job.local_id, b""))


async def release_claims(database: Database, queue: Queue, source: str) -> int:
    """Release all claims of a source: IN_PROGRESS -> PENDING, no attempt spent. Return how many jobs."""

    async def change(transaction: MysqlTransaction) -> int:
        held: defaultdict[bytes, list[int]] = defaultdict(list)
        for local_id, claim in await transaction.rows("claims_of_queue", queue=queue.id):
            if source_of(claim.decode()) == source:
                held[claim].append(local_id)
        statements = [
            transaction.bind("release_jobs", ids=sorted(ids), queue=queue.id, claim=claim, now=transaction.now)
            for claim, ids in held.items()
        ]
        released = sum(result.matched for result in await transaction.run(*statements)) if statements else 0
        await let_next_through(transaction, await keys_of(transaction, [at for ids in held.values() for at in ids]))
        return released

    return await database.change(change, is_repeatable=True)


def _ids(calls: Sequence[MysqlCheckpointCall]) -> list[int]:
    """Return the ids of all jobs in the order in which transactions lock them."""
    return sorted({item.job.local_id for call in calls for item in call.checkpoints})


def _returned_ids(calls: Sequence[MysqlCheckpointCall]) -> list[int]:
    """Return the ids of the jobs that are given back."""
    return sorted({item.job.local_id for call in calls for item in call.checkpoints if item.move_to_pending})


async def _claims_by_source(transaction: MysqlTransaction, call: MysqlCheckpointCall) -> dict[int, bytes]:
    """Return the claims that hold the jobs of checkpoints without a claim."""
    ids = sorted(item.job.local_id for item in call.checkpoints if item.claim is None)
    return dict(await transaction.rows("claims_of_jobs", ids=ids, queue=call.queue.id)) if ids else {}


def _claim_of(item: StoredCheckpoint, held: Mapping[int, bytes]) -> bytes | None:
    """Return the claim that has to hold the job; None: another source holds it, or nobody."""
    if item.claim is not None:
        return item.claim.encode()
    claim = held.get(item.job.local_id)
    return claim if claim is not None and source_of(claim.decode()) == item.source else None


def _statements(
    transaction: MysqlTransaction, call: MysqlCheckpointCall, held: Mapping[int, bytes], *, has_keys: bool
) -> Iterator[bytes]:
    """Yield one statement per checkpoint that changes something, in their order, then those that only renew."""
    renewals: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    for item in call.checkpoints:
        claim = _claim_of(item, held)
        if claim is None:
            continue
        if item.is_renewal and item.claim is not None:
            renewals[claim, item.job.priority].append(item.job.local_id)
        else:
            yield _bind(transaction, call.queue, item, claim, has_keys=has_keys)
    for (claim, priority), ids in renewals.items():
        yield transaction.bind(
            "renew_jobs", ids=sorted(ids), queue=call.queue.id, priority=priority, claim=claim, now=transaction.now
        )


def _bind(
    transaction: MysqlTransaction, queue: Queue, item: StoredCheckpoint, claim: bytes, *, has_keys: bool
) -> bytes:
    return transaction.bind(
        "checkpoint_job",
        id=item.job.local_id,
        queue=queue.id,
        priority=item.job.priority,
        claim=claim,
        now=transaction.now,
        has_body=item.body is not None,
        body=item.body or b"",
        body_bytes=len(item.body or b""),
        is_back=item.move_to_pending,
        run_after=item.new_run_after_ms(transaction.now),
        attempts=item.attempts,
        status=item.status,
        has_keys=has_keys,
    )


def _settled(now: int, call: MysqlCheckpointCall, counts: Sequence[int]) -> Settled:
    changed = sum(counts)
    dues = [
        now if item.run_after_ms is None else item.run_after_ms for item in call.checkpoints if item.move_to_pending
    ]
    return Settled(changed, len(call.checkpoints) - changed, min(dues, default=None) if changed else None)
