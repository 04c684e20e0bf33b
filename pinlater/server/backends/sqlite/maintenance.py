"""Changes of jobs that do not come from workers: retries and deletions by operators, expiry, collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import CLAIM_EXPIRED
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.batches import STEP_JOBS
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.records import Once
from pinlater.server.backends.sqlite import failure_groups
from pinlater.server.backends.sqlite.call_results import find_number, save
from pinlater.server.backends.sqlite.children import forget_families, refresh_families, tell_deleted, tell_failed
from pinlater.server.backends.sqlite.key_rates import forget_rates, keep_rates
from pinlater.server.backends.sqlite.keys import Keys, keys_of, keys_of_all, let_next_through
from pinlater.server.backends.sqlite.messages import forget_messages, forget_more
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list
from pinlater.server.backends.sqlite.verb import one_by_one


class SqliteRetryRequest(NamedTuple):
    """FAILED -> PENDING: one step towards ``limit`` jobs of a priority; earlier steps changed ``so_far``."""

    queue_id: int
    priority: int
    attempts: int
    run_after_ms: int | None
    limit: int
    once: Once
    so_far: int = 0


class DeleteRequest(NamedTuple):
    """Given jobs that are still in a state -> gone: one step towards ``limit``; earlier steps deleted ``so_far``."""

    queue_id: int
    state: int
    ids: Sequence[int]
    limit: int
    once: Once
    so_far: int


class RetryTheseRequest(NamedTuple):
    """Given jobs that are FAILED -> PENDING."""

    queue_id: int
    jobs: Sequence[JobDescriptor]
    attempts: int
    run_after_ms: int | None
    once: Once


@one_by_one
def retry(transaction: SqliteTransaction, request: SqliteRetryRequest) -> tuple[int, bool]:
    """Carry out one step of a call; return how many jobs it has retried in all, and whether it is done."""
    before = find_number(transaction, request.once) or request.so_far
    asked = min(max(request.limit - before, 0), STEP_JOBS)
    rows = transaction.rows(QUERIES["failed_jobs"], (request.queue_id, request.priority, asked))
    run_after = transaction.now if request.run_after_ms is None else request.run_after_ms
    ids = [row[0] for row in rows]
    values = (request.queue_id, transaction.now, id_list(ids), request.attempts, run_after)
    moved = _save_total(transaction, request.once, before + transaction.run(QUERIES["retry_jobs"], values))
    refresh_families(transaction, request.queue_id, ids)
    _let_through(transaction, request.queue_id, ids)
    return moved, len(rows) < asked or moved >= request.limit


def _save_total(transaction: SqliteTransaction, once: Once, number: int) -> int:
    """Save how many jobs a call has changed in all, in case it is sent again; return the number."""
    save(transaction, once, number)
    return number


@one_by_one
def delete(transaction: SqliteTransaction, request: DeleteRequest) -> int:
    """Carry out one step of a call; return how many jobs it has deleted in all."""
    before = find_number(transaction, request.once) or request.so_far
    ids, after = request.ids, before
    while ids and after < request.limit:  # other calls may have deleted some of them
        some, ids = ids[: request.limit - after], ids[request.limit - after :]
        listed = id_list(some)
        keys = _before_deletion(transaction, request.queue_id, some, request.state)
        after += transaction.run(QUERIES["delete_jobs"], (request.queue_id, listed, request.state))
        _forget_links(transaction, request.queue_id, some)
        let_next_through(transaction, keys)
    return _save_total(transaction, request.once, after)


@one_by_one
def retry_these(transaction: SqliteTransaction, request: RetryTheseRequest) -> int:
    """Carry out a request; return how many jobs it has retried."""
    queue_id, jobs, attempts, run_after_ms, once = request
    known = find_number(transaction, once)
    if known is not None:
        return known
    now = transaction.now
    run_after = now if run_after_ms is None else run_after_ms
    rows = [(queue_id, now, job.local_id, job.priority, attempts, run_after) for job in jobs]
    moved = transaction.run_many(QUERIES["retry_this_job"], rows)
    refresh_families(transaction, queue_id, _ids_of(jobs))
    _let_through(transaction, queue_id, _ids_of(jobs))
    return _save_total(transaction, once, moved)


def _let_through(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> None:
    """Let through the jobs whose turn it is after jobs of a queue were retried."""
    keep_rates(transaction, queue_id, ids)
    let_next_through(transaction, keys_of(transaction, queue_id, ids))


@one_by_one
def schedule(
    transaction: SqliteTransaction, queue_id: int, jobs: Sequence[JobDescriptor], run_after_ms: int | None, once: Once
) -> int:
    """Given jobs that are PENDING -> due at ``run_after_ms``; None: those that are not due -> due now.

    Return how many.
    """
    known = find_number(transaction, once)
    if known is not None:
        return known
    now, is_put_off = transaction.now, run_after_ms is not None
    run_after = now if run_after_ms is None else run_after_ms
    rows = [(queue_id, now, job.local_id, job.priority, run_after, is_put_off) for job in jobs]
    moved = transaction.run_many(QUERIES["schedule_this_job"], rows)
    let_next_through(transaction, keys_of(transaction, queue_id, _ids_of(jobs)))
    return _save_total(transaction, once, moved)


@one_by_one
def delete_these(
    transaction: SqliteTransaction, queue_id: int, jobs: Sequence[JobDescriptor], state: int, once: Once
) -> int:
    """Given jobs that are in a state -> gone; return how many."""
    known = find_number(transaction, once)
    if known is not None:
        return known
    rows = transaction.rows(QUERIES["states_of_jobs"], (queue_id, id_list(_ids_of(jobs))))
    named = {(job.local_id, job.priority) for job in jobs}
    ids = [local_id for local_id, priority, present, _ in rows if present == state and (local_id, priority) in named]
    keys = _before_deletion(transaction, queue_id, ids, state)
    removed = transaction.run(QUERIES["delete_jobs"], (queue_id, id_list(ids), state))
    _forget_links(transaction, queue_id, ids)
    let_next_through(transaction, keys)
    return _save_total(transaction, once, removed)


def _ids_of(jobs: Sequence[JobDescriptor]) -> list[int]:
    return [job.local_id for job in jobs]


def _before_deletion(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int], state: int) -> Keys:
    """Prepare the deletion of those jobs that are in ``state``; return the keys of all the jobs.

    If they have not finished, end the periods of their unique keys and send messages to their parents.
    """
    if state in {PENDING, IN_PROGRESS}:
        transaction.run(QUERIES["end_periods"], (queue_id, id_list(ids), state))
        tell_deleted(transaction, queue_id, ids, state)
    return keys_of(transaction, queue_id, ids)


def _forget_links(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> None:
    """Delete what ties those of these jobs to others that are gone now."""
    forget_messages(transaction, queue_id, ids)
    forget_families(transaction, queue_id, ids)


@one_by_one
def reap(
    transaction: SqliteTransaction, asked_ms: int, limit: int, server_age_ms: int, quiet_ms: int
) -> list[tuple[int, int, int]]:
    """End up to ``limit`` claims that had expired at ``asked_ms``; for the others, see ``Store.reap_expired``.

    Return for each queue that had any (queue id, count of PENDING, count of FAILED).
    """
    before = min(asked_ms, transaction.now)
    rows = transaction.rows(QUERIES["expired_claims"], (before, server_age_ms, quiet_ms, limit))
    if not rows:
        return []
    ids = [row[0] for row in rows]
    for queue_id in {row[1] for row in rows}:
        failure_groups.note(transaction, queue_id, [CLAIM_EXPIRED])
    transaction.run(QUERIES["expire_jobs"], (transaction.now, id_list(ids), CLAIM_EXPIRED.group))
    retried = Counter(queue_id for _, queue_id, is_retried in rows if is_retried)
    failed = grouped((queue_id, local_id) for local_id, queue_id, is_retried in rows if not is_retried)
    for queue_id, some in failed.items():
        tell_failed(transaction, queue_id, some)
    let_next_through(transaction, keys_of_all(transaction, ids))
    return [(queue_id, retried[queue_id], len(failed.get(queue_id, ()))) for queue_id in retried.keys() | failed.keys()]


@one_by_one
def collect(
    transaction: SqliteTransaction, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int
) -> list[tuple[int, int, int]]:
    """Delete up to ``limit`` jobs of each state that finished longer ago than that, and some jobs of deleted queues.

    Return for each queue that had any (queue id, count of SUCCEEDED, count of FAILED).
    """
    sql, now = QUERIES["collect_finished"], transaction.now
    succeeded, failed = (
        grouped(transaction.rows(sql, (state, now - ttl_ms, limit)))
        for state, ttl_ms in ((SUCCEEDED, succeeded_ttl_ms), (FAILED, failed_ttl_ms))
    )
    for gone in (succeeded, failed):
        for queue_id, ids in gone.items():
            _forget_links(transaction, queue_id, ids)
    deleted = {queue_id for (queue_id,) in transaction.rows(QUERIES["deleted_queues"])}
    transaction.queues.note_deleted(deleted)
    for queue_id in deleted:
        _sweep(transaction, queue_id, limit)
    forget_more(transaction)
    forget_rates(transaction)
    return [
        (queue_id, len(succeeded.get(queue_id, ())), len(failed.get(queue_id, ())))
        for queue_id in succeeded.keys() | failed.keys()
    ]


def _sweep(transaction: SqliteTransaction, queue_id: int, limit: int) -> None:
    rows = transaction.rows(QUERIES["oldest_of_queue"], (queue_id, limit))
    if rows:
        ids = [row[0] for row in rows]
        for state in (PENDING, IN_PROGRESS):
            tell_deleted(transaction, queue_id, ids, state)
        transaction.run(QUERIES["delete_by_id"], (id_list(ids),))
        _forget_links(transaction, queue_id, ids)
    else:
        transaction.run(QUERIES["forget_failure_groups_of_queue"], (queue_id,))
        transaction.run(QUERIES["forget_queue"], (queue_id,))


@one_by_one
def forget(transaction: SqliteTransaction, limit: int) -> int:
    """Delete ended periods of unique keys and empty failure groups, up to ``limit`` each; return how many."""
    periods = transaction.run(QUERIES["forget_periods"], (transaction.now, limit))
    return periods + failure_groups.forget(transaction, limit)
