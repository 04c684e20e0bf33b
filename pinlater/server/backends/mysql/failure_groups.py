"""Failure groups, and the jobs in them.

The table ``failing_jobs`` has a copy of each PENDING or FAILED job with a group. A claim deletes the copy; whatever
ends or releases a claim inserts it, in the same transaction. What the failures of a group have in common is one row,
which all servers write. So it is written in a separate transaction, before the first of its jobs, and then at most once
a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pinlater.model.failure_groups import OTHER_ERRORS, FailureGroup, JobFailure
from pinlater.protocol.messages import FAILED, PENDING
from pinlater.server.backends.failure_budget import (
    MOST_CHECKED,
    MOST_READ,
    NOTED_EVERY_MS,
    CountBudget,
    begun,
    is_forgotten,
    kept_group,
    largest,
    next_look_ms,
)
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queries import blob, one_row
from pinlater.server.backends.mysql.transaction import MysqlTransaction

_MOST_REMEMBERED = 10_000
"""How many groups a server remembers the last write of."""

_GROUPS_PER_QUERY = 50

Place = tuple[int, int]
"""Queue id and group of a failure."""

Kept = Mapping[Place, int]
"""The group in which jobs are stored, by queue id and the group of their failure."""


async def keep(
    database: Database,
    failures: Iterable[tuple[int, JobFailure]],
    confirm: Callable[[Collection[Place]], Awaitable[Collection[Place]]] | None = None,
) -> Kept:
    """Store the groups of failures, given with their queue ids, as far as there is room; return where their jobs go.

    Args:
        database: the shard's database.
        failures: the failures.
        confirm: takes the groups that are about to be written, and returns those that jobs go to; the others are left
            out of the result. None: jobs go to all of them.
    """
    wanted = {(queue_id, failure.group): failure for queue_id, failure in failures}
    if not wanted:
        return {}
    noted, now = database.noted_failures, database.now_ms()
    kept: dict[tuple[int, int], int] = {}
    late: dict[Place, JobFailure] = {}
    for place, failure in wanted.items():
        group, noted_at = noted.get(place, (0, None))
        if noted_at is not None and noted_at <= now < noted_at + NOTED_EVERY_MS:
            kept[place] = group
        else:
            late[place] = failure
    if late and confirm is not None:
        confirmed = await confirm(late)
        late = {place: failure for place, failure in late.items() if place in confirmed}
    if late:
        by_queue = grouped((queue_id, failure) for (queue_id, _), failure in late.items())
        new = await database.change(lambda transaction: _note(transaction, by_queue), is_repeatable=True)
        if len(noted) > _MOST_REMEMBERED:
            noted.clear()
        noted.update({place: (group, now) for place, group in new.items()})
        kept |= new
    return kept


async def _note(
    transaction: MysqlTransaction, failures: Mapping[int, Sequence[JobFailure]]
) -> dict[tuple[int, int], int]:
    """Record that groups have just failed, and insert new ones; return where their jobs go."""
    ids = {queue_id: [OTHER_ERRORS.group, *(each.group for each in some)] for queue_id, some in failures.items()}
    queries = [transaction.bind("kept_failure_groups", queue=queue_id, ids=some) for queue_id, some in ids.items()]
    counts = [transaction.bind("count_failure_groups", queue=queue_id) for queue_id in ids]
    *found, count = await transaction.run(*queries, one_row(counts))
    rows: dict[tuple[int, int], JobFailure] = {}
    places: dict[tuple[int, int], int] = {}
    for (queue_id, some), known_rows, kept in zip(failures.items(), found, count.rows[0], strict=True):
        known = {group for (group,) in known_rows.rows}
        new = begun(some, known, kept)
        known.update(failure.group for failure in new)
        for failure in some:
            group = places[queue_id, failure.group] = kept_group(failure, known) or 0
            rows[queue_id, group] = failure if group == failure.group else OTHER_ERRORS
    now = transaction.now
    values = [_row(place, failure, now) for place, failure in sorted(rows.items())]
    head, tail = transaction.bind("insert_failure_groups"), transaction.bind("note_failures")
    await transaction.run_and_commit(b" ".join([head, b",".join(values), tail]))
    return places


def _row(place: tuple[int, int], failure: JobFailure, now: int) -> bytes:
    job, error, example = (blob(text.encode("utf-8", "replace")) for text in failure[1:])
    return b"(%d,%d,%b,%b,%b,%d,%d,%d)" % (*place, job, error, example, now, now, next_look_ms(now))


def put_in(transaction: MysqlTransaction, ids: Sequence[int]) -> None:
    """Update the copies of jobs that may now be PENDING or FAILED with a group."""
    if ids:
        transaction.later(transaction.bind("insert_failing_jobs", ids=sorted(ids)))


def take_out(transaction: MysqlTransaction, ids: Sequence[int]) -> None:
    """Delete the copies of jobs that are claimed, cancelled or about to be deleted, or whose copies are outdated."""
    if ids:
        transaction.later(transaction.bind("delete_failing_jobs", ids=sorted(ids)))


def take_out_revived(transaction: MysqlTransaction, ids: Sequence[int]) -> None:
    """Delete the copies of those jobs that no longer have a group."""
    if ids:
        transaction.later(transaction.bind("delete_revived_jobs", ids=sorted(ids)))


async def read(database: Database, queues: Mapping[int, str], limit: int) -> list[FailureGroup]:
    """Return the largest failure groups of queues, given as names by id."""
    if not queues:
        return []
    rows = await database.rows(database.queries.bind("failure_groups", queues=sorted(queues), limit=MOST_READ))
    budget = CountBudget()
    found: list[FailureGroup] = []
    for start in range(0, len(rows), _GROUPS_PER_QUERY):
        some = rows[start : start + _GROUPS_PER_QUERY]
        queries = [
            database.queries.bind("count_failed_so", queue=row[0], group=row[1], state=state, cap=budget.cap)
            for row in some
            for state in (FAILED, PENDING)
        ]
        [counts] = await database.rows(one_row(queries))
        budget.spend(sum(counts))
        found += (
            _group(queues[row[0]], row, *each) for row, *each in zip(some, counts[::2], counts[1::2], strict=True)
        )
    return largest(found, limit)


def _group(queue: str, row: Sequence[Any], given_up: int, retrying: int) -> FailureGroup:
    _, group, *texts, first_ms, last_ms = row
    job, error, example = (text.decode("utf-8", "replace") for text in texts)
    return FailureGroup(queue, group, job, error, example, first_ms, last_ms, given_up, retrying)


async def forget(database: Database, limit: int) -> int:
    """Check up to ``limit`` groups that are due for it, and delete those long empty; return how many were deleted.

    Copies that differ from their jobs are rebuilt: servers of version 0.1 change and delete jobs without updating the
    copies. Only the first copies of a group are compared, but an outdated one becomes one of the first in time, since
    due jobs are claimed. If all that were compared are outdated, the group is checked again at once.
    """

    async def change(transaction: MysqlTransaction) -> int:
        now = transaction.now
        gone: defaultdict[int, list[int]] = defaultdict(list)
        stay: defaultdict[int, list[int]] = defaultdict(list)
        filled: list[tuple[int, int]] = []
        for queue_id, group, last_ms, is_empty, kept in await transaction.rows(
            "failure_groups_to_look_at", now=now, limit=limit
        ):
            (gone if is_empty and is_forgotten(now - last_ms, kept) else stay)[queue_id].append(group)
            if not is_empty:
                filled.append((queue_id, group))
        for queue_id, group in await _renew_copies(transaction, filled):
            stay[queue_id].remove(group)
        for queue_id, ids in sorted(gone.items()):
            transaction.later(transaction.bind("delete_failure_groups", queue=queue_id, ids=sorted(ids)))
        for queue_id, ids in sorted(stay.items()):
            look_at = next_look_ms(now)
            if ids:
                transaction.later(
                    transaction.bind("look_at_failure_groups", queue=queue_id, ids=sorted(ids), look_at=look_at)
                )
        if gone or stay:
            await transaction.run_and_commit()
        return sum(map(len, gone.values()))

    return await database.change(change, is_repeatable=True)


async def _renew_copies(transaction: MysqlTransaction, groups: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Rebuild the copies of groups that differ from their jobs; return the groups that may have more of those."""
    places = [(queue_id, group, state) for queue_id, group in groups for state in (FAILED, PENDING)]
    queries = [
        transaction.bind("outdated_failing_jobs", queue=queue_id, failure_group=group, state=state, limit=MOST_CHECKED)
        for queue_id, group, state in places
    ]
    outdated: set[int] = set()
    unfinished: set[tuple[int, int]] = set()
    for (queue_id, group, _), found in zip(places, await transaction.run(*queries), strict=True):
        outdated.update(local_id for (local_id,) in found.rows)
        if len(found.rows) == MOST_CHECKED:
            unfinished.add((queue_id, group))
    take_out(transaction, sorted(outdated))
    put_in(transaction, sorted(outdated))
    return unfinished
