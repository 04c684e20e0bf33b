"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.records import Dequeued
from pinlater.server.backends.sqlite.claimable import walk_claimable
from pinlater.server.backends.sqlite.key_rates import count_starts
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES, by_ids
from pinlater.server.backends.sqlite.transaction import SqliteTransaction

_CLAIM = by_ids("claim_jobs")
_CLAIM_OF_MANY = QUERIES["claim_jobs_of_many"]
_CLAIMED = QUERIES["claimed_of_queue"]
_NEXT_DUE = QUERIES["next_due"]

_BEGINNING_OF_TIME = -(2**63)

_MAX_GROUPED_JOBS = 10
_MAX_GROUPED_BYTES = 1 << 20
"""A dequeue that asks for more jobs, or finds larger ones, gets its own statements."""


class SqliteClaimRequest(NamedTuple):
    """One dequeue. ``prefixes`` are what descriptors begin with, one for each priority from 1."""

    queue_id: int
    prefixes: Sequence[str]
    limit: int
    max_bytes: int
    claim: str
    lease_ms: int
    want_next_due: bool
    max_running: int | None


def claim_jobs(transaction: SqliteTransaction, requests: Sequence[SqliteClaimRequest]) -> list[Dequeued]:
    """Claim for each dequeue in turn; those that ask for a few jobs of the same queue share statements."""
    turns = _Turns(transaction)
    if len(requests) == 1:
        results = [_claim_one(transaction, requests[0], turns)]
    else:
        results = _claim_many(transaction, requests, turns)
    turns.end()
    return results


def _claim_many(
    transaction: SqliteTransaction, requests: Sequence[SqliteClaimRequest], turns: _Turns
) -> list[Dequeued]:
    results: list[Dequeued] = []
    for queue_id, group in groupby(requests, _group_of):
        dequeues = list(group)
        may_share = queue_id is not None and queue_id not in transaction.queues.keyed and len(dequeues) > 1
        shared = _claim_shared(transaction, dequeues) if may_share else None
        results += [_claim_one(transaction, dequeue, turns) for dequeue in dequeues] if shared is None else shared
    return results


def _group_of(request: SqliteClaimRequest) -> int | None:
    """Return the queue of a dequeue that may share statements, None for any other."""
    is_small = request.max_running is None and request.limit <= _MAX_GROUPED_JOBS
    return request.queue_id if is_small and "\0" not in request.claim else None  # SQLite's JSON ends text at NUL


def _claim_shared(transaction: SqliteTransaction, requests: Sequence[SqliteClaimRequest]) -> list[Dequeued] | None:
    """Claim for several dequeues of a queue, for each what it would get in its turn.

    Return None, and claim nothing, if the bodies are too large.
    """
    queue_id, prefixes = requests[0][:2]
    limit = sum(request.limit for request in requests)
    found = list(
        walk_claimable(transaction.rows, queue_id, prefixes, transaction.now, limit=limit, max_bytes=_MAX_GROUPED_BYTES)
    )
    if any(jobs.is_cut for _, jobs in found):
        return None
    sizes = [size for _, jobs in found for size in jobs.sizes]
    shares = _share(sizes, requests)
    claimed = sum(len(share) for share, _ in shares)
    if claimed:
        ids = [local_id for _, jobs in found for local_id in jobs.ids]
        claims = [
            (ids[position], request.claim, request.lease_ms)
            for (share, _), request in zip(shares, requests, strict=True)
            for position in share
        ]
        transaction.run(_CLAIM_OF_MANY, (transaction.now, msgspec.json.encode(claims).decode()))
    jobs_found = [job for prefix, jobs in found for job in jobs.with_bodies(transaction.rows, prefix)]
    due = None
    if not all(has_more for _, has_more in shares) and any(request.want_next_due for request in requests):
        due = _next_due(transaction, requests[0])
    return [
        Dequeued(jobs_found[share.start : share.stop], None if has_more or not request.want_next_due else due, has_more)
        for (share, has_more), request in zip(shares, requests, strict=True)
    ]


def _share(sizes: Sequence[int], requests: Sequence[SqliteClaimRequest]) -> list[tuple[range, bool]]:
    """Return which of the jobs each dequeue gets, and whether there may be more for it."""
    shares: list[tuple[range, bool]] = []
    start = 0
    for request in requests:
        end, has_more = end_of_answer(sizes, start, request.limit, request.max_bytes)
        shares.append((range(start, end), has_more))
        start = end
    return shares


def _claim_one(transaction: SqliteTransaction, request: SqliteClaimRequest, turns: _Turns) -> Dequeued:
    limit = request.limit
    if request.max_running is not None:
        free = request.max_running - int(transaction.rows(_CLAIMED, (request.queue_id,))[0][0])
        if free <= 0:
            return Dequeued([], None, has_more=False, is_held=True)
        limit = min(limit, free)
    jobs, is_cut = _claim_due(transaction, request, limit, turns)
    if is_cut or len(jobs) >= limit:
        is_held = limit < request.limit
        return Dequeued(jobs, None, has_more=not is_held, is_held=is_held)
    return Dequeued(jobs, _next_due(transaction, request) if request.want_next_due else None, has_more=False)


def _claim_due(
    transaction: SqliteTransaction, request: SqliteClaimRequest, limit: int, turns: _Turns
) -> tuple[list[DequeuedJob], bool]:
    """Claim up to ``limit`` due jobs, including those that are let through meanwhile.

    Return them, and whether another one did not fit into the answer.
    """
    now, queue_id, lease_ms = transaction.now, request.queue_id, request.lease_ms
    jobs: list[DequeuedJob] = []
    room, is_cut = request.max_bytes, False
    while len(jobs) < limit and not is_cut:
        for prefix, found in walk_claimable(
            transaction.rows,
            queue_id,
            request.prefixes,
            now,
            limit=limit - len(jobs),
            max_bytes=room,
            is_first=not jobs,
        ):
            transaction.run_on(_CLAIM, (now, request.claim, now + lease_ms, lease_ms), found.ids)
            jobs += found.with_bodies(transaction.rows, prefix)
            turns.record(queue_id, found.ids)
            room, is_cut = room - found.bytes_taken, found.is_cut
        wanted = 0 if is_cut else limit - len(jobs)
        if wanted and not turns.let_next_through(queue_id, wanted):
            break
    return jobs, is_cut


class _Turns:
    """Lets through the next jobs of the keys of which the dequeues of a transaction have claimed jobs.

    It does so when a dequeue finds too few jobs, and at the end. After each dequeue would be too early: the next job of
    the key with the oldest jobs would be first among those that are due in this millisecond, again and again.
    """

    __slots__ = ("_claimed", "_transaction")

    def __init__(self, transaction: SqliteTransaction) -> None:
        self._transaction = transaction
        self._claimed: dict[int, list[int]] = {}

    def record(self, queue_id: int, ids: Sequence[int]) -> None:
        """Record that jobs of a queue were claimed; costs nothing if no job of the queue ever had a key."""
        if queue_id in self._transaction.queues.keyed:
            self._claimed.setdefault(queue_id, []).extend(ids)

    def let_next_through(self, queue_id: int, wanted: int = 0) -> int:
        """Let through the jobs of a queue whose turn it is; return how many.

        Args:
            queue_id: the queue's id.
            wanted: how many more jobs a dequeue could take than it has found.
        """
        claimed = self._claimed.pop(queue_id, None)
        if claimed is None:
            return 0
        keys = keys_of(self._transaction, queue_id, claimed)
        if keys:
            count_starts(self._transaction, queue_id, claimed)
        return let_next_through(self._transaction, keys, wanted)

    def end(self) -> None:
        """Let through the jobs of all queues whose turn it is."""
        for queue_id in tuple(self._claimed):
            self.let_next_through(queue_id)


def _next_due(transaction: SqliteTransaction, request: SqliteClaimRequest) -> int | None:
    return _first_after(transaction, request, transaction.now)


def first_pending(transaction: SqliteTransaction, request: SqliteClaimRequest) -> int | None:
    """Return when the first PENDING job of a dequeue's queue falls or fell due; None if none is PENDING."""
    return _first_after(transaction, request, _BEGINNING_OF_TIME)


def _first_after(transaction: SqliteTransaction, request: SqliteClaimRequest, after: int) -> int | None:
    due = [
        row[0]
        for priority in range(1, len(request.prefixes) + 1)
        for row in transaction.rows(_NEXT_DUE, (request.queue_id, after, priority))
    ]
    return min(due, default=None)
