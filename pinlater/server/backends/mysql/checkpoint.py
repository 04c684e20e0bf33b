"""Checkpoints: renew a claim, save progress, or return a job to PENDING."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pinlater.model.attempts import StoredCheckpoint
from pinlater.model.messages import MAX_DROPPED
from pinlater.server.backends.claim_names import source_of
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import put_in
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.linked_changes import (
    Changed,
    Links,
    change_and_commit,
    lock_in_order,
    see_to_links,
    with_links_if_needed,
)
from pinlater.server.backends.mysql.messages import waits_text
from pinlater.server.backends.mysql.queries import Value
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Settled
from pinlater.server.backends.search import Queue

_WAKE = "wake_if_arrived"
_CHANGES = ("checkpoint_job", "renew_jobs")
"""Statements whose number of matched rows tells how many jobs were held."""


class MysqlCheckpointCall(NamedTuple):
    """The checkpoints of one call, all for one queue."""

    queue: Queue
    checkpoints: Sequence[StoredCheckpoint]

    @property
    def weight(self) -> int:
        """Bytes that the call adds to a transaction."""
        kept = sum(len(message.payload) for item in self.checkpoints for message in item.keeps)
        return kept + sum(len(item.body or b"") for item in self.checkpoints) + 300 * len(self.checkpoints)

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be committed twice."""
        return all(item.is_repeatable for item in self.checkpoints)

    @property
    def is_renewal(self) -> bool:
        """Whether it only renews claims."""
        return all(item.is_renewal for item in self.checkpoints)


class MysqlCheckpointed(NamedTuple):
    """The outcome of the checkpoints of one call.

    Attributes:
        settled: the result, without the lost and cancelled jobs, which ``with_jobs`` adds.
        has_cancelled: whether any job that was held, including those given back, is asked to stop.
    """

    settled: Settled
    has_cancelled: bool

    async def with_jobs(self, database: Database, call: MysqlCheckpointCall) -> Settled:
        """Add the jobs that are lost or asked to stop, if there are any.

        They are read separately, as a statement for many jobs returns how many it has matched, but not which.
        """
        items = [item for item in call.checkpoints if not item.move_to_pending]
        ids = sorted({item.job.local_id for item in items})
        if not ids or not (self.settled.stale or self.has_cancelled):
            return self.settled
        rows = await database.rows(database.queries.bind("claims_of_jobs", ids=ids, queue=call.queue.id))
        claims = {local_id: claim for local_id, claim, _ in rows}
        asked = {local_id for local_id, _, is_cancelled in rows if is_cancelled}
        are_held = [_claim_of(item, claims) == claims.get(item.job.local_id, b"") for item in items]
        lost = tuple(item.job for item, is_held in zip(items, are_held, strict=True) if not is_held)
        held = dict.fromkeys(item.job for item, is_held in zip(items, are_held, strict=True) if is_held)
        return self.settled._replace(lost=lost, cancelled=tuple(job for job in held if job.local_id in asked))


CheckpointBatch = CommitBatch[MysqlCheckpointCall, MysqlCheckpointed]


async def checkpoint_jobs(database: Database, batch: CheckpointBatch) -> None:
    """Attempt the checkpoints of a batch: IN_PROGRESS -> IN_PROGRESS with a renewed lease, or PENDING."""
    await with_links_if_needed(database, batch, partial(_checkpoint_jobs, database, batch))


async def _checkpoint_jobs(database: Database, batch: CheckpointBatch, links: Links) -> Changed:
    async with database.transaction() as transaction:
        if batch.conflicts:
            await lock_in_order(transaction, _ids(batch.requests), links)
        claims = [await _claims_by_source(transaction, call) for call in batch.requests]
        statements = [
            list(_statements(transaction, call, held, links)) for call, held in zip(batch.requests, claims, strict=True)
        ]
        flat = [statement for some in statements for _, statement in some]
        returned = _returned_ids(batch.requests)
        if returned:
            flat.append(transaction.bind("insert_failing_jobs", ids=returned))
        changed = await change_and_commit(transaction, batch, flat, returned, links)
        results = iter(changed.results)
        found = [[(kind, next(results)) for kind, _ in some] for some in statements]
    parts = zip(batch.requests, found, strict=True)
    batch.answer([_checkpointed(transaction.now, call, some, changed) for call, some in parts])
    return changed


async def release_claims(database: Database, queue: Queue, source: str) -> int:
    """Release all jobs that a source has claimed: IN_PROGRESS -> PENDING, no attempt spent. Return how many."""

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
        all_ids = [local_id for ids in held.values() for local_id in ids]
        put_in(transaction, all_ids)
        await see_to_links(transaction, all_ids)
        return released

    return await database.change(change, is_repeatable=True)


def _ids(calls: Sequence[MysqlCheckpointCall]) -> list[int]:
    """Return the ids of all jobs, in locking order."""
    return sorted({item.job.local_id for call in calls for item in call.checkpoints})


def _returned_ids(calls: Sequence[MysqlCheckpointCall]) -> list[int]:
    """Return the ids of the jobs that are given back."""
    return sorted({item.job.local_id for call in calls for item in call.checkpoints if item.move_to_pending})


async def _claims_by_source(transaction: MysqlTransaction, call: MysqlCheckpointCall) -> dict[int, bytes]:
    """Return, by job id, the claims that hold the jobs of those checkpoints that name no claim."""
    ids = sorted(item.job.local_id for item in call.checkpoints if item.claim is None)
    rows = await transaction.rows("claims_of_jobs", ids=ids, queue=call.queue.id) if ids else []
    return {local_id: claim for local_id, claim, _ in rows}


def _claim_of(item: StoredCheckpoint, held: Mapping[int, bytes]) -> bytes | None:
    """Return the claim that must hold the job; None if another source holds it, or nobody does."""
    if item.claim is not None:
        return item.claim.encode()
    claim = held.get(item.job.local_id)
    return claim if claim is not None and source_of(claim.decode()) == item.source else None


def _statements(
    transaction: MysqlTransaction, call: MysqlCheckpointCall, held: Mapping[int, bytes], links: Links
) -> Iterator[tuple[str, bytes]]:
    """Yield statements with their names: for each checkpoint that changes something, in order, then for renewals."""
    renewals: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    for item in call.checkpoints:
        claim = _claim_of(item, held)
        if claim is None:
            continue
        if item.is_renewal and item.claim is not None:
            renewals[claim, item.job.priority].append(item.job.local_id)
        else:
            yield from _change(transaction, call.queue, item, claim, links)
    for (claim, priority), ids in renewals.items():
        values = {"queue": call.queue.id, "priority": priority, "now": transaction.now}
        yield "renew_jobs", transaction.bind("renew_jobs", ids=sorted(ids), claim=claim, **values)


def _change(
    transaction: MysqlTransaction, queue: Queue, item: StoredCheckpoint, claim: bytes, links: Links
) -> Iterator[tuple[str, bytes]]:
    """Yield the statements for one checkpoint; a job that falls asleep is due if a wait is already fulfilled."""
    yield from _messages(transaction, queue, item, claim)
    waits_for = waits_text(item.waits_for)
    yield (
        "checkpoint_job",
        transaction.bind(
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
            waits_for=waits_for,
            kept=len(item.keeps),
            has_keys=links.has_keys,
            has_parents=links.has_parents,
        ),
    )
    for name, number in item.waits_for:
        values = {"id": item.job.local_id, "now": transaction.now, "waits_for": waits_for, "number": number}
        yield _WAKE, transaction.bind(_WAKE, name=name.encode(), **values)


def _messages(
    transaction: MysqlTransaction, queue: Queue, item: StoredCheckpoint, claim: bytes
) -> Iterator[tuple[str, bytes]]:
    """Yield the statements that store and delete the messages a job keeps for itself, while it still has its claim."""
    if item.keeps or item.drops:
        yield "lock_jobs", transaction.bind("lock_jobs", ids=[item.job.local_id])
    holder: dict[str, Value] = {
        "id": item.job.local_id,
        "queue": queue.id,
        "priority": item.job.priority,
        "claim": claim,
    }
    for message in item.keeps:
        yield (
            "keep_message",
            transaction.bind(
                "keep_message",
                name=message.name.encode(),
                message_id=message.id.encode(),
                payload=message.payload,
                payload_bytes=len(message.payload),
                **holder,
            ),
        )
    for name in item.drops:
        yield "drop_messages", transaction.bind("drop_messages", name=name.encode(), limit=MAX_DROPPED, **holder)


def _checkpointed(
    now: int, call: MysqlCheckpointCall, found: Sequence[tuple[str, StatementResult]], of_batch: Changed
) -> MysqlCheckpointed:
    """Return the result of a call, given the names and results of its statements."""
    changed = sum(result.matched for name, result in found if name in _CHANGES)
    dues = [
        now if item.run_after_ms is None else item.run_after_ms for item in call.checkpoints if item.move_to_pending
    ]
    is_asked = any(result.insert_id for name, result in found if name in _CHANGES)
    if dues and (is_asked or any(result.matched for name, result in found if name == _WAKE)):
        dues.append(now)  # a job that is asked to stop and given back keeps its run_after
    due, stale = min(dues, default=None) if changed else None, len(call.checkpoints) - changed
    let_through = of_batch.let_through(_returned_ids([call])) if of_batch.through else 0
    return MysqlCheckpointed(Settled(changed, stale, due, let_through=let_through), is_asked)
