"""Import: nothing -> the state that a job had in another store, see ``as_imported``."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import failure_in
from pinlater.model.jobs import JobRecord
from pinlater.protocol.messages import PENDING, SUCCEEDED
from pinlater.server.backends.failure_budget import kept_group
from pinlater.server.backends.imported_jobs import as_imported
from pinlater.server.backends.records import Once
from pinlater.server.backends.sqlite import failure_groups
from pinlater.server.backends.sqlite.call_results import Place, find_places, save
from pinlater.server.backends.sqlite.enqueue import holders_of_keys
from pinlater.server.backends.sqlite.key_rates import keep_rates
from pinlater.server.backends.sqlite.keys import KeyLine, key_columns, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction
from pinlater.server.backends.sqlite.verb import one_by_one


@one_by_one
def import_jobs(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[JobRecord], once: Once) -> list[Place]:
    """Import the jobs of a call; return their places, or those of the jobs that hold their unique keys."""
    known = find_places(transaction, once, (JobDescriptor.parse(job.descriptor).priority for job in jobs))
    if known is not None:
        return known
    jobs = list(map(as_imported, jobs))
    keys = {job.unique for job in jobs if job.unique is not None}
    holders = holders_of_keys(transaction, queue_id, keys)
    taken = {key: holder[:2] for key, holder in holders.items() if not holder.is_finished}
    places, rows, line = [], [], KeyLine(transaction, queue_id)
    if any(job.key is not None for job in jobs):  # also for finished jobs: a failed one needs its key when retried
        transaction.mark_keyed(queue_id)
    if any(job.is_cancelled and job.state == PENDING for job in jobs):
        transaction.mark_with_cancelled(queue_id)
    failures = [failure_in(job) for job in jobs]
    kept = failure_groups.note(transaction, queue_id, [failure for failure in failures if failure is not None])
    first_id = transaction.take_ids(len(jobs))
    for local_id, (job, failure) in enumerate(zip(jobs, failures, strict=True), first_id):
        place = None if job.unique is None else taken.get(job.unique)
        if place is None:
            place = JobDescriptor.parse(job.descriptor).priority, local_id
            run_ms = job.run_ms if job.state == SUCCEEDED else None
            row, rate = _row(queue_id, place, job, line)
            rows.append((*row, kept_group(failure, kept), run_ms, rate))
            if job.unique is not None:
                taken[job.unique] = place
        places.append(place)
    transaction.run_many(QUERIES["import_job"], rows)
    keep_rates(transaction, queue_id, range(first_id, first_id + len(jobs)))
    let_next_through(transaction, {queue_id: line.keys})
    save(transaction, once, first_id, places)
    return places


def _row(queue_id: int, place: Place, job: JobRecord, line: KeyLine) -> tuple[tuple[object, ...], str | None]:
    """Return the first columns of an imported job, and the rate of its key."""
    priority, local_id = place
    times = line.run_after(job) if job.state == PENDING else job.run_after_ms, job.created_at_ms, job.updated_at_ms
    key, limit, rate = key_columns(job)
    head = queue_id, local_id, job.state, priority, *times, job.attempts_allowed, job.attempts_remaining
    return (*head, job.status, job.body or b"", job.unique, key, limit, job.result, job.is_cancelled), rate
