"""Enqueue: nothing -> PENDING."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import NamedTuple

from pinlater.errors import EnqueueRejected
from pinlater.model.jobs import NewJob
from pinlater.server.backends.key_turns import LEAD_MS
from pinlater.server.backends.records import Once
from pinlater.server.backends.sqlite.call_results import Place, consecutive_places, find_places, save, save_new
from pinlater.server.backends.sqlite.children import refusal, store_families
from pinlater.server.backends.sqlite.key_rates import set_rates
from pinlater.server.backends.sqlite.keys import KeyLine, Keys, key_columns, keys_of_all, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES, insert_jobs, insert_keyed_jobs
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list
from pinlater.server.backends.unique_keys import KeyHolder, key_holders, replaced

ROWS_PER_STATEMENT = 100
COLUMNS = 6
"""Parameters per job without keys, see ``insert_jobs``."""

_priority_of = attrgetter("priority")


class EnqueueRequest(NamedTuple):
    """Jobs for one queue; all are stored, or none."""

    queue_id: int
    jobs: Sequence[NewJob]
    once: Once = None


def enqueue(transaction: SqliteTransaction, requests: Sequence[EnqueueRequest]) -> list[int]:
    """Store jobs without keys or parents, at least one per request; return each request's first id.

    A request's other ids follow its first one. All jobs of a queue are inserted together, whoever sent them.
    """
    first_ids, wanted = [], []
    for _, jobs, once in requests:
        first_ids.append(first_id := transaction.take_ids(len(jobs)))
        if once is not None:
            wanted.append((once, first_id))
    known = save_new(transaction, wanted) if wanted else {}
    now = transaction.now
    to_insert: dict[int, list[object]] = {}  # by queue, the parameters of ``insert_jobs``
    for position, (queue_id, jobs, once) in enumerate(requests):
        first_id = first_ids[position]
        if known and once is not None and known.get(once.value, first_id) != first_id:
            first_ids[position] = known[once.value]
            continue
        parameters = to_insert.get(queue_id) or to_insert.setdefault(queue_id, [queue_id, now])
        for start in range(0, len(jobs), ROWS_PER_STATEMENT):
            chunk = jobs[start : start + ROWS_PER_STATEMENT]
            if len(parameters) // COLUMNS + len(chunk) > ROWS_PER_STATEMENT:
                transaction.run(insert_jobs(len(parameters) // COLUMNS), parameters)
                del parameters[2:]
            for local_id, (body, priority, run_after, attempts, status, *_) in enumerate(chunk, first_id + start):
                parameters += (local_id, priority, now if run_after is None else run_after, attempts, status, body)
    for parameters in to_insert.values():
        transaction.run(insert_jobs(len(parameters) // COLUMNS), parameters)
    return first_ids


def enqueue_keyed(
    transaction: SqliteTransaction, requests: Sequence[EnqueueRequest]
) -> list[list[Place] | EnqueueRejected]:
    """Store jobs of which some have keys, unique or shared, or parents.

    Return for each call the places of its jobs, or of the jobs that hold their unique keys; or why it is refused.
    """
    answers: list[list[Place] | EnqueueRejected] = []
    keys: Keys = {}  # of new jobs, which wait for them
    for request in requests:
        if keys and any(job.unique is not None for job in request.jobs):  # one of these may replace one of them
            let_next_through(transaction, keys, lead_ms=LEAD_MS)
            keys.clear()
        answers.append(_enqueue_keyed_one(transaction, request, keys))
    let_next_through(transaction, keys, lead_ms=LEAD_MS)
    return answers


def _enqueue_keyed_one(
    transaction: SqliteTransaction, request: EnqueueRequest, keys: Keys
) -> list[Place] | EnqueueRejected:
    """Store the jobs of one call, and add the keys that they wait for."""
    queue_id, jobs, once = request
    answer = find_places(transaction, once, map(_priority_of, jobs)) or refusal(transaction, jobs)
    if answer is not None:
        return answer
    if not any(job.unique is not None or job.key is not None for job in jobs):
        return _enqueue_children(transaction, request)
    holders = holders_of_keys(transaction, queue_id, {job.unique for job in jobs if job.unique is not None})
    first_id = transaction.take_ids(len(jobs))  # ids that are left over, since jobs already exist, are never used
    fresh: list[NewJob] = []
    freed: list[int] = []
    places: list[Place] = []
    for job in jobs:
        holder = None if job.unique is None else holders.get(job.unique)
        if holder is not None and holder.gives_way_to(job.unique_rule):
            freed.append(holder.local_id)
            holder = None
        if holder is None:
            holder = KeyHolder(job.priority, first_id + len(fresh), transaction.now)
            fresh.append(job)
            if job.unique is not None:
                holders[job.unique] = holder
        elif holder.is_replaced_by(job):
            _replace(transaction, holder, job, fresh, first_id)
        places.append(holder[:2])
    if freed:
        transaction.run(QUERIES["free_keys"], (id_list(freed),))
    keys.setdefault(queue_id, set()).update(_insert_keyed(transaction, queue_id, fresh, first_id))
    set_rates(transaction, queue_id, fresh)
    _keep_periods(transaction, queue_id, fresh, first_id)
    save(transaction, once, first_id, places)
    return places


def _enqueue_children(transaction: SqliteTransaction, request: EnqueueRequest) -> list[Place]:
    """Store jobs that have parents but no keys; the caller has checked that nothing refuses them."""
    queue_id, jobs, once = request
    now, first_id = transaction.now, transaction.take_ids(len(jobs))
    for start in range(0, len(jobs), ROWS_PER_STATEMENT):
        chunk = jobs[start : start + ROWS_PER_STATEMENT]
        parameters: list[object] = [queue_id, now]
        for local_id, job in enumerate(chunk, first_id + start):
            body, priority, run_after, attempts, status, *_ = job
            parameters += (local_id, priority, now if run_after is None else run_after, attempts, status, body)
        transaction.run(insert_jobs(len(chunk)), parameters)
    store_families(transaction, queue_id, jobs, first_id)
    save(transaction, once, first_id)
    return consecutive_places(first_id, map(_priority_of, jobs))


def _replace(
    transaction: SqliteTransaction, holder: KeyHolder, job: NewJob, fresh: list[NewJob], first_id: int
) -> None:
    """Give the holder of a key the body, attempts and status of a new job, and its time if the rule says so."""
    due = holder.replaced_due(job, transaction.now)
    if holder.local_id >= first_id:
        index = holder.local_id - first_id
        fresh[index] = replaced(fresh[index], job, due)
    else:
        told = job.body, job.attempts, job.status, due
        transaction.run(QUERIES["replace_job"], (holder.local_id, transaction.now, *told))
        let_next_through(transaction, keys_of_all(transaction, [holder.local_id]))


def holders_of_keys(transaction: SqliteTransaction, queue_id: int, keys: Collection[str]) -> dict[str, KeyHolder]:
    """Return those of these unique keys that are taken, with the jobs that have them."""
    if not keys:
        return {}
    wanted = json.dumps(list(keys))
    rows = transaction.rows(QUERIES["unique_jobs"], (queue_id, wanted))
    return key_holders(rows, transaction.rows(QUERIES["unique_periods"], (queue_id, wanted, transaction.now)))


def _keep_periods(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[NewJob], first_id: int) -> None:
    for local_id, job in enumerate(jobs, first_id):
        if job.unique_rule is not None and job.unique_rule.period_ms:
            ends_at = transaction.now + job.unique_rule.period_ms
            transaction.run(QUERIES["keep_period"], (queue_id, job.unique, job.priority, local_id, ends_at))


def _insert_keyed(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[NewJob], first_id: int) -> set[str]:
    """Insert jobs, which wait for their keys until ``let_next_through``; return these keys."""
    now, line = transaction.now, KeyLine(transaction, queue_id)
    for start in range(0, len(jobs), ROWS_PER_STATEMENT):
        chunk = jobs[start : start + ROWS_PER_STATEMENT]
        parameters: list[object] = [queue_id, now]
        for local_id, job in enumerate(chunk, first_id + start):
            parameters += (local_id, job.priority, line.run_after(job), job.attempts, job.status, job.body, job.unique)
            parameters += key_columns(job)
        transaction.run(insert_keyed_jobs(len(chunk)), parameters)
    store_families(transaction, queue_id, jobs, first_id)
    return line.keys
