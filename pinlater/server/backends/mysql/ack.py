"""Acks: IN_PROGRESS -> SUCCEEDED, PENDING or FAILED."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pinlater.model.attempts import StoredAck
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import Kept, Place, keep
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.linked_changes import (
    Changed,
    Links,
    change_and_commit,
    lock_in_order,
    with_links_if_needed,
)
from pinlater.server.backends.mysql.queries import STATEMENT_BYTES, Value
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Settled
from pinlater.server.backends.search import Queue

_LAST_MS = 2**63 - 1
MAX_ACKS = 20_000
"""Most acks in one transaction."""

_RESULT_BYTES = 400
"""This many bytes of results weigh as much as one ack."""

_FINAL = "fail_jobs"

_RESULTS_PER_STATEMENT = 200
"""Most results in one statement, which searches their list for each id."""


class MysqlAckCall(NamedTuple):
    """The acks of one call, all for one queue."""

    queue: Queue
    succeeded: Sequence[StoredAck]
    failed: Sequence[StoredAck]

    @property
    def weight(self) -> int:
        """Weight, as measured against ``MAX_ACKS``: the number of acks, and more for large results."""
        acks = len(self.succeeded) + len(self.failed)
        return acks + sum(len(ack.result) for ack in self.succeeded if ack.result is not None) // _RESULT_BYTES

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be committed twice; a failure without a claim would end the next holder's attempt."""
        return all(ack.claim is not None for ack in self.failed)


class _Outcome(NamedTuple):
    """The fields that acks of one statement have in common."""

    priority: int
    claim: str | None
    status: str
    retry_at: int | None = None
    is_final: bool = False
    is_cancelled: bool = False
    failure_group: int | None = None


async def ack_jobs(database: Database, batch: CommitBatch[MysqlAckCall, Settled]) -> None:
    """Attempt the acks of a batch; jobs that are not IN_PROGRESS, or are under another claim, stay unchanged."""
    failing = [(call.queue.id, ack) for call in batch.requests for ack in call.failed if ack.failure is not None]
    failures = [(queue_id, ack.failure) for queue_id, ack in failing if ack.failure is not None]
    kept = await keep(database, failures, partial(_held_places, database, failing))
    await with_links_if_needed(database, batch, partial(_ack_jobs, database, batch, kept))


async def _held_places(
    database: Database, failing: Sequence[tuple[int, StoredAck]], late: Collection[Place]
) -> set[Place]:
    """Return those of the groups for which there is an ack that is not stale; a stale one must not change its group.

    An ack without a claim is never stale here, since its job may be claimed before it is carried out.
    """
    asked = [((queue_id, ack.failure.group), ack) for queue_id, ack in failing if ack.failure is not None]
    asked = [(place, ack) for place, ack in asked if place in late]
    ids = sorted({ack.job.local_id for _, ack in asked})
    held = dict(await database.rows(database.queries.bind("holders_of_jobs", ids=ids)))
    return {place for place, ack in asked if ack.claim is None or held.get(ack.job.local_id) == ack.claim.encode()}


async def _ack_jobs(database: Database, batch: CommitBatch[MysqlAckCall, Settled], kept: Kept, links: Links) -> Changed:
    async with database.transaction() as transaction:
        statements = [list(_statements(transaction, call, kept, links)) for call in batch.requests]
        flat = [sql for some in statements for _, sql in some]
        failing = sorted({ack.job.local_id for call in batch.requests for ack in call.failed if ack.failure})
        if failing:
            flat.append(transaction.bind("insert_failing_jobs", ids=failing))
        flat += (sql for call in batch.requests for sql in _run_times(transaction, call))
        ids = _ids(batch.requests) if any(links) or batch.conflicts else ()
        if batch.conflicts:
            await lock_in_order(transaction, ids, links)
        changed = await change_and_commit(transaction, batch, flat, ids, links)
        results = iter(changed.results)
        counts = [[(name, next(results).matched) for name, _ in some] for some in statements]
    parts = zip(batch.requests, counts, strict=True)
    batch.answer([_settled(transaction.now, call, some, changed) for call, some in parts])
    return changed


def _ids(calls: Sequence[MysqlAckCall]) -> list[int]:
    """Return the ids of all jobs, in locking order."""
    return sorted({ack.job.local_id for call in calls for ack in (*call.succeeded, *call.failed)})


def _settled(now: int, call: MysqlAckCall, counts: Sequence[tuple[str, int]], of_batch: Changed) -> Settled:
    """Return the result of a call, given how many jobs each of its statements has changed."""
    changed = sum(count for _, count in counts)
    failed = sum(count for name, count in counts if name == _FINAL)
    stale = len(call.succeeded) + len(call.failed) - changed
    due = min((_retry_at(now, ack.retry_delay_ms) for ack in call.failed if not ack.is_final), default=None)
    let_through = of_batch.let_through(_ids([call])) if of_batch.through else 0
    return Settled(changed, stale, due, failed=failed, let_through=let_through)


def _retry_at(now: int, delay_ms: int) -> int:
    """Return when to retry a failed job; an excessive delay is capped, so that it does not fail the other acks."""
    return min(now + max(delay_ms, 0), _LAST_MS)


def _statements(
    transaction: MysqlTransaction, call: MysqlAckCall, kept: Kept, links: Links
) -> Iterator[tuple[str, bytes]]:
    """Yield statements with their names, one for all acks with the same outcome; most acks of a call share one.

    A failure that is not final takes two, for jobs with attempts left and for the others: their counts tell how many
    jobs are FAILED.
    """
    values = {"queue": call.queue.id, "has_keys": links.has_keys, "has_parents": links.has_parents}
    succeeded: defaultdict[_Outcome, list[int]] = defaultdict(list)
    results: defaultdict[_Outcome, dict[int, bytes]] = defaultdict(dict)
    for (_, _, priority, local_id), claim, status, _, _, result, *_ in call.succeeded:
        if result is None:
            succeeded[_Outcome(priority, claim, status)].append(local_id)
        else:
            results[_Outcome(priority, claim, status)].setdefault(local_id, result)
    for outcome, ids in succeeded.items():
        name = "succeed_job" if outcome.status else "succeed_jobs"
        yield name, _bind(transaction, name, outcome, ids, **values)
    for outcome, of_jobs in results.items():
        for some in _chunks(of_jobs):
            name, listed = "succeed_with_results", [some[local_id] for local_id in sorted(some)]
            yield name, _bind(transaction, name, outcome, some, results=listed, **values)
    failed: defaultdict[_Outcome, list[int]] = defaultdict(list)
    for (_, _, priority, local_id), claim, status, delay, is_final, _, is_cancelled, failure, _ in call.failed:
        retry_at = _retry_at(transaction.now, delay)
        group = None if failure is None else kept.get((call.queue.id, failure.group))
        failed[_Outcome(priority, claim, status, retry_at, is_final, is_cancelled, group)].append(local_id)
    for outcome, ids in failed.items():
        for name in (_FINAL,) if outcome.is_final else ("fail_attempts", _FINAL):
            yield name, _bind(transaction, name, outcome, ids, **values)


def _run_times(transaction: MysqlTransaction, call: MysqlAckCall) -> Iterator[bytes]:
    """Yield statements that store how long the jobs ran that have succeeded in this transaction."""
    times: defaultdict[str | None, dict[int, int]] = defaultdict(dict)
    for ack in call.succeeded:
        if ack.run_ms is not None:
            times[ack.claim][ack.job.local_id] = ack.run_ms
    for claim, of_jobs in times.items():
        ids = sorted(of_jobs)
        for start in range(0, len(ids), _RESULTS_PER_STATEMENT):
            some = ids[start : start + _RESULTS_PER_STATEMENT]
            yield transaction.bind(
                "keep_run_times",
                ids=some,
                times=[of_jobs[local_id] for local_id in some],
                now=transaction.now,
                queue=call.queue.id,
                is_any=claim is None,
                claim=None if claim is None else claim.encode(),
            )


def _chunks(results: Mapping[int, bytes]) -> Iterator[dict[int, bytes]]:
    """Split results, given by job id, into one dictionary per statement."""
    some: dict[int, bytes] = {}
    size = 0
    for local_id, result in results.items():
        if some and (len(some) == _RESULTS_PER_STATEMENT or size + len(result) > STATEMENT_BYTES):
            yield some
            some, size = {}, 0
        some[local_id] = result
        size += len(result)
    yield some


def _bind(transaction: MysqlTransaction, name: str, outcome: _Outcome, ids: Iterable[int], **values: Value) -> bytes:
    return transaction.bind(
        name,
        ids=sorted(ids),
        now=transaction.now,
        priority=outcome.priority,
        is_any=outcome.claim is None,
        claim=None if outcome.claim is None else outcome.claim.encode(),
        status=outcome.status,
        retry_at=outcome.retry_at,
        is_final=outcome.is_final,
        is_cancelled=outcome.is_cancelled,
        failure_group=outcome.failure_group,
        **values,
    )
