"""Checkpoints: a sign of life, progress, or a job given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.claim_names import source_of
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import Batch
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import Checkpoint, Settled
from pinlater.server.backends.search import Queue


class CheckpointRequest(NamedTuple):
    """The checkpoints of one call, all for one queue."""

    queue: Queue
    checkpoints: Sequence[Checkpoint]

    @property
    def weight(self) -> int:
        """What it adds to a transaction, in bytes."""
        return sum(len(item.body or b"") for item in self.checkpoints) + 300 * len(self.checkpoints)

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be done twice."""
        return all(item.is_repeatable for item in self.checkpoints)


CheckpointBatch = Batch[CheckpointRequest, Settled]


class Checkpointer:
    """Applies checkpoints to the jobs that their claims, or their source, hold.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def checkpoint(self, batch: CheckpointBatch) -> None:
        """Make one attempt at a batch."""
        async with self._database.transaction() as transaction:
            if batch.conflicts:
                await transaction.rows("hold_jobs", ids=_ids(batch.requests))
            claims = [await _claims_by_source(transaction, request) for request in batch.requests]
            statements = [
                list(_statements(transaction, request, held))
                for request, held in zip(batch.requests, claims, strict=True)
            ]
            flat = [statement for some in statements for statement in some]
            with batch.committing():
                results = iter(await transaction.run_to_end(*flat) if flat else ())
            changed = [[next(results).matched for _ in some] for some in statements]
        batch.answer(
            [
                _settled(transaction.now, request, counts)
                for request, counts in zip(batch.requests, changed, strict=True)
            ]
        )

    async def lost(self, request: CheckpointRequest) -> tuple[JobDescriptor, ...]:
        """Return which jobs are not held as their checkpoints said, but for those that went back.

        To be asked where some were stale: a statement for many jobs tells how many it has changed, and not which.
        """
        items = [item for item in request.checkpoints if not item.move_to_pending]
        ids = sorted({item.job.local_id for item in items})
        if not ids:
            return ()
        bound = self._database.queries.bind("claims_of_jobs", ids=ids, queue=request.queue.id)
        held = dict(await self._database.rows(bound))
        return tuple(item.job for item in items if _claim_of(item, held) != held.get(item.job.local_id, b""))

    async def release(self, queue: Queue, source: str) -> int:
        """Give back all claims of a source, no attempt spent; return how many."""

        async def work(transaction: Transaction) -> int:
            held: defaultdict[bytes, list[int]] = defaultdict(list)
            for local_id, claim in await transaction.rows("claims_of_queue", queue=queue.id):
                if source_of(claim.decode()) == source:
                    held[claim].append(local_id)
            statements = [
                transaction.bind("release_jobs", ids=sorted(ids), queue=queue.id, claim=claim, now=transaction.now)
                for claim, ids in held.items()
            ]
            return sum(result.matched for result in await transaction.run_to_end(*statements))

        return await self._database.change(work, is_repeatable=True)


def _ids(requests: Sequence[CheckpointRequest]) -> list[int]:
    """Return which jobs they are about, in the order in which all who change jobs take them."""
    return sorted({item.job.local_id for request in requests for item in request.checkpoints})


async def _claims_by_source(transaction: Transaction, request: CheckpointRequest) -> dict[int, bytes]:
    """Return who holds the jobs of checkpoints without a claim."""
    ids = sorted(item.job.local_id for item in request.checkpoints if item.claim is None)
    return dict(await transaction.rows("claims_of_jobs", ids=ids, queue=request.queue.id)) if ids else {}


def _claim_of(item: Checkpoint, held: Mapping[int, bytes]) -> bytes | None:
    """Return the claim under which the job has to be; None if another source holds it, or nobody."""
    if item.claim is not None:
        return item.claim.encode()
    claim = held.get(item.job.local_id)
    return claim if claim is not None and source_of(claim.decode()) == item.source else None


def _statements(transaction: Transaction, request: CheckpointRequest, held: Mapping[int, bytes]) -> Iterator[bytes]:
    """Yield one statement for each checkpoint that changes something, in their order, then those that only renew."""
    renewals: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    for item in request.checkpoints:
        claim = _claim_of(item, held)
        if claim is None:
            continue
        if item.is_renewal and item.claim is not None:
            renewals[claim, item.job.priority].append(item.job.local_id)
        else:
            yield _changing(transaction, request.queue, item, claim)
    for (claim, priority), ids in renewals.items():
        yield transaction.bind(
            "renew_jobs", ids=sorted(ids), queue=request.queue.id, priority=priority, claim=claim, now=transaction.now
        )


def _changing(transaction: Transaction, queue: Queue, item: Checkpoint, claim: bytes) -> bytes:
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
    )


def _settled(now: int, request: CheckpointRequest, counts: Sequence[int]) -> Settled:
    changed = sum(counts)
    dues = [
        now if item.run_after_ms is None else item.run_after_ms for item in request.checkpoints if item.move_to_pending
    ]
    return Settled(changed, len(request.checkpoints) - changed, min(dues, default=None) if changed else None)
