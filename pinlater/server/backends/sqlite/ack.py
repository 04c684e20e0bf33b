"""Acks: IN_PROGRESS -> SUCCEEDED, PENDING or FAILED."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, repeat
from typing import NamedTuple

import msgspec

from pinlater.model.attempts import StoredAck
from pinlater.model.failure_groups import JobFailure
from pinlater.server.backends.failure_budget import kept_group
from pinlater.server.backends.records import Settled
from pinlater.server.backends.sqlite import failure_groups
from pinlater.server.backends.sqlite.children import note_successes, tell_acked
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES, by_ids
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list, joined

_SUCCEED_MANY = by_ids("succeed_jobs")
_KEEP_RUN_TIMES = QUERIES["keep_run_times"]
_SUCCEED_ONE = QUERIES["succeed_job"]
_END_ONE = QUERIES["end_job"]
_FAIL_ONE = QUERIES["fail_job"]
_CLAIMS = QUERIES["claims_of_jobs"]
_HOLDERS = QUERIES["holders_of_jobs"]
_SUCCEED_HELD = QUERIES["succeed_held_jobs"]
_SUCCEED_WITH_RESULTS = QUERIES["succeed_jobs_with_results"]
_LAST_MS = 2**63 - 1

_MAX_GROUPED_ACKS = 10
"""A call with more acks gets its own statements."""

_LongRun = tuple[int, int, str | None]
"""A job whose run time is kept: its id, its run time in milliseconds, and the claim of its ack."""

_held_jobs = msgspec.json.Decoder(list[tuple[int, int, str | None]]).decode


class SqliteAckRequest(NamedTuple):
    """The acks of one call, all for one queue."""

    queue_id: int
    succeeded: Sequence[StoredAck]
    failed: Sequence[StoredAck]


def ack_jobs(transaction: SqliteTransaction, requests: Sequence[SqliteAckRequest]) -> list[Settled]:
    """Ack the jobs of each call; jobs that are not in progress, or are under another claim, stay as they are."""
    settled = [_ack_call(transaction, requests[0])] if len(requests) == 1 else _ack_calls(transaction, requests)
    if transaction.queues.with_parents:  # once after all acks: they may end many children of one parent
        ended: defaultdict[int, list[int]] = defaultdict(list)
        for queue_id, *acks in requests:
            ended[queue_id] += (ack.job.local_id for some in acks for ack in some)
        is_any_stale = any(one.stale for one in settled)
        for queue_id, ids in ended.items():
            tell_acked(transaction, queue_id, ids, is_any_stale=is_any_stale)
    return settled


def _ack_calls(transaction: SqliteTransaction, requests: Sequence[SqliteAckRequest]) -> list[Settled]:
    settled: list[Settled] = []
    for queue_id, group in groupby(requests, _group_of):
        calls = list(group)
        if queue_id is not None and len(calls) > 1:
            settled += _succeed_calls(transaction, calls)
        else:
            settled += [_ack_call(transaction, call) for call in calls]
    return settled


def _group_of(request: SqliteAckRequest) -> int | None:
    """Return the queue of a call that has only a few success acks without a status text, None for any other."""
    queue_id, succeeded, failed = request
    if failed or not 0 < len(succeeded) <= _MAX_GROUPED_ACKS:
        return None
    is_plain = not any(ack.status or "\0" in (ack.claim or "") for ack in succeeded)  # SQLite's JSON ends text at NUL
    return queue_id if is_plain else None


def _succeed_calls(transaction: SqliteTransaction, calls: Sequence[SqliteAckRequest]) -> list[Settled]:
    """Mark jobs of several calls for one queue SUCCEEDED, with two statements for all calls, and one for results."""
    wanted = id_list(ack.job.local_id for call in calls for ack in call.succeeded)
    [(rows,)] = transaction.rows(_CLAIMS, (calls[0].queue_id, wanted))
    held = {local_id: (priority, claim) for local_id, priority, claim in _held_jobs(rows)}
    ids: list[int] = []
    results: dict[int, bytes] = {}
    long_runs: list[_LongRun] = []
    settled: list[Settled] = []
    for call in calls:
        changed = 0
        for (_, _, priority, local_id), claim, _, _, _, result, _, _, run_ms in call.succeeded:
            holder = held.get(local_id)
            if holder is not None and holder[0] == priority and (claim is None or holder[1] == claim):
                del held[local_id]  # a second ack of it is stale
                changed += 1
                if run_ms is not None:
                    long_runs.append((local_id, run_ms, claim))
                if result is None:
                    ids.append(local_id)
                else:
                    results[local_id] = result
        settled.append(Settled(changed, len(call.succeeded) - changed, None))
    if ids:
        transaction.run(_SUCCEED_HELD, (transaction.now, id_list(ids)))
    if results:
        _succeed_with(transaction, calls[0].queue_id, results)
    note_successes(transaction, calls[0].queue_id, chain(_without_results(ids), results.items()))
    _keep_run_times(transaction, calls[0].queue_id, long_runs)
    through = _let_through_behind(transaction, calls)
    return [settled[0]._replace(let_through=through), *settled[1:]] if through else settled


def _ack_call(transaction: SqliteTransaction, request: SqliteAckRequest) -> Settled:
    changed = _succeed(transaction, request.queue_id, request.succeeded)
    ended, retried = _fail(transaction, request.queue_id, request.failed)
    changed += ended + retried
    stale = len(request.succeeded) + len(request.failed) - changed
    retries = (_retry_at(transaction.now, ack.retry_delay_ms) for ack in request.failed if not ack.is_final)
    through = _let_through_behind(transaction, [request])
    return Settled(changed, stale, min(retries, default=None), failed=ended, let_through=through)


def _let_through_behind(transaction: SqliteTransaction, calls: Sequence[SqliteAckRequest]) -> int:
    """Let through the jobs that waited for the keys of jobs acked by calls for one queue; return how many."""
    acked = (ack.job.local_id for _, *acks in calls for some in acks for ack in some)
    return let_next_through(transaction, keys_of(transaction, calls[0].queue_id, acked))


def _retry_at(now: int, delay_ms: int) -> int:
    """Return when a failed job runs again; a delay that overflows must not fail the other acks."""
    return min(now + max(delay_ms, 0), _LAST_MS)


def _succeed(transaction: SqliteTransaction, queue_id: int, acks: Sequence[StoredAck]) -> int:
    """Mark jobs SUCCEEDED; acks without a status text that share a claim take one statement, or two with results."""
    alike: defaultdict[tuple[str | None, int], list[int]] = defaultdict(list)
    with_results: defaultdict[tuple[str | None, int], dict[int, bytes]] = defaultdict(dict)
    apart: list[tuple[object, ...]] = []
    long_runs: list[_LongRun] = []
    for (_, _, priority, local_id), claim, status, _, _, result, _, _, run_ms in acks:
        if run_ms is not None:
            long_runs.append((local_id, run_ms, claim))
        if status:
            apart.append((queue_id, transaction.now, local_id, claim, priority, status, result))
        elif result is None:
            alike[claim, priority].append(local_id)
        else:
            with_results[claim, priority].setdefault(local_id, result)
    changed = 0
    for (claim, priority), ids in alike.items():
        succeeded = transaction.run_on(_SUCCEED_MANY, (queue_id, transaction.now, claim, priority), ids)
        if succeeded == len(ids):
            note_successes(transaction, queue_id, _without_results(ids))
        changed += succeeded
    for alike_in, results in with_results.items():
        succeeded = _succeed_with(transaction, queue_id, results, *alike_in)
        if succeeded == len(results):
            note_successes(transaction, queue_id, results.items())
        changed += succeeded
    changed += transaction.run_many(_SUCCEED_ONE, apart) if apart else 0
    _keep_run_times(transaction, queue_id, long_runs)
    return changed


def _without_results(ids: Iterable[int]) -> Iterable[tuple[int, bytes]]:
    """Yield the ids of jobs that returned nothing, each with what their parents get as result."""
    return zip(ids, repeat(b""), strict=False)


def _keep_run_times(transaction: SqliteTransaction, queue_id: int, long_runs: Sequence[_LongRun]) -> None:
    """Store how long jobs ran that this transaction has marked SUCCEEDED."""
    if long_runs:
        listed = msgspec.json.encode(long_runs).decode()
        transaction.run(_KEEP_RUN_TIMES, (queue_id, transaction.now, listed))


def _succeed_with(
    transaction: SqliteTransaction,
    queue_id: int,
    results: Mapping[int, bytes],
    claim: str | None = None,
    priority: int | None = None,
) -> int:
    """Mark jobs SUCCEEDED and store their results; return how many."""
    places, blob = joined(results.values())
    placed = {local_id: start << 31 | size for local_id, (start, size) in zip(results, places, strict=True)}
    listed = msgspec.json.encode(placed).decode()
    return transaction.run(_SUCCEED_WITH_RESULTS, (queue_id, transaction.now, listed, claim, priority, blob))


def _fail(transaction: SqliteTransaction, queue_id: int, acks: Sequence[StoredAck]) -> tuple[int, int]:
    """Fail attempts; return how many jobs are FAILED for good, and how many are retried."""
    if not acks:
        return 0, 0
    now = transaction.now
    kept = failure_groups.note(transaction, queue_id, _failures_of_held(transaction, queue_id, acks))
    rows = [
        (queue_id, now, local_id, claim, priority, status, is_final, is_cancelled, kept_group(failure, kept), delay)
        for (_, _, priority, local_id), claim, status, delay, is_final, _, is_cancelled, failure, _ in acks
    ]
    again = [(*row[:6], _retry_at(now, row[9]), row[8]) for row in rows if not row[6]]
    retried = transaction.run_many(_FAIL_ONE, again) if again else 0
    if retried == len(rows):
        return 0, retried
    return transaction.run_many(_END_ONE, [row[:9] for row in rows]), retried


def _failures_of_held(transaction: SqliteTransaction, queue_id: int, acks: Sequence[StoredAck]) -> list[JobFailure]:
    """Return the failures of those acks that are not stale; a stale ack must neither add nor update a group."""
    told = [(ack.job, ack.claim, ack.failure) for ack in acks if ack.failure is not None]
    if not told:
        return []
    rows = transaction.rows(_HOLDERS, (queue_id, id_list(job.local_id for job, _, _ in told)))
    held = {local_id: (priority, claim) for local_id, priority, claim in rows}
    return [
        failure
        for job, claim, failure in told
        if (holder := held.get(job.local_id)) and holder[0] == job.priority and claim in (None, holder[1])
    ]
