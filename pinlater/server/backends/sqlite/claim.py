"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, Dequeued
from pinlater.server.backends.sqlite.claimable import Claimable, walk_claimable
from pinlater.server.backends.sqlite.key_rates import count_starts
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES, by_ids
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_CLAIM = by_ids("claim_jobs")
_CLAIM_OF_MANY = QUERIES["claim_jobs_of_many"]
_CLAIMED = QUERIES["claimed_of_queue"]
_FIRST_PENDING = QUERIES["first_pending"]

_MAX_GROUPED_JOBS = 10
_MAX_GROUPED_BYTES = 1 << 20
"""A dequeue that asks for more jobs gets its own statements; larger jobs are claimed in several steps."""


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
    let_through = turns.end()
    return [
        found._replace(next_due_ms=None, has_more=True) if request.queue_id in let_through and found.jobs else found
        for request, found in zip(requests, results, strict=True)
    ]


def _claim_many(
    transaction: SqliteTransaction, requests: Sequence[SqliteClaimRequest], turns: _Turns
) -> list[Dequeued]:
    results: list[Dequeued] = []
    for queue_id, group in groupby(requests, _group_of):
        dequeues = list(group)
        if queue_id is None or len(dequeues) == 1:
            results += [_claim_one(transaction, dequeue, turns) for dequeue in dequeues]
        else:
            results += _claim_shared(transaction, dequeues, turns)
    return results


def _group_of(request: SqliteClaimRequest) -> int | None:
    """Return the queue of a dequeue that may share statements, None for any other."""
    is_small = request.max_running is None and request.limit <= _MAX_GROUPED_JOBS
    return request.queue_id if is_small and "\0" not in request.claim else None  # SQLite's JSON ends text at NUL


class _Share:
    """What one of several dequeues of a queue gets.

    Attributes:
        request: the dequeue.
        jobs: the jobs that it has got.
        wanted: how many more it can take.
    """

    __slots__ = ("_room", "jobs", "request", "wanted")

    def __init__(self, request: SqliteClaimRequest) -> None:
        self.request = request
        self.jobs: list[DequeuedJob] = []
        self.wanted = request.limit
        self._room = request.max_bytes

    def take(self, sizes: Sequence[int], start: int) -> int:
        """Take jobs of these sizes from ``start`` on, as many as it wants and fit; return where they end."""
        end, _ = end_of_answer(sizes, start, self.wanted, self._room, is_first=not self.jobs)
        self._room -= sum(sizes[start:end]) + JOB_OVERHEAD_BYTES * (end - start)
        self.wanted = 0 if end < len(sizes) else self.wanted - (end - start)
        return end


def _claim_shared(
    transaction: SqliteTransaction, requests: Sequence[SqliteClaimRequest], turns: _Turns
) -> list[Dequeued]:
    """Claim for several dequeues of a queue, for each what it would get in its turn."""
    queue_id, prefixes = requests[0][:2]
    shares, is_cut = [_Share(request) for request in requests], False
    while wanted := sum(share.wanted for share in shares):
        found = list(
            walk_claimable(
                transaction.rows, queue_id, prefixes, transaction.now, limit=wanted, max_bytes=_MAX_GROUPED_BYTES
            )
        )
        claimed = _hand_out(transaction, found, shares)
        turns.record(queue_id, claimed)
        is_cut = any(jobs.is_cut for _, jobs in found) or len(claimed) < sum(len(jobs.ids) for _, jobs in found)
        wanted = sum(share.wanted for share in shares)
        if wanted and not is_cut and not turns.let_next_through(queue_id, wanted):
            break
    rest = _rest(transaction, requests[0], is_cut=is_cut)
    return [rest.after(share.request, share.jobs, is_full=not share.wanted) for share in shares]


class _Rest(NamedTuple):
    """What claims have left.

    Attributes:
        is_due: whether other jobs are due.
        next_due_ms: when the next job falls due if none is.
    """

    is_due: bool
    next_due_ms: int | None

    def after(self, request: SqliteClaimRequest, jobs: list[DequeuedJob], *, is_full: bool) -> Dequeued:
        """Return the result of a dequeue; ``is_full``: it takes no more jobs."""
        return Dequeued(jobs, self.next_due_ms if request.want_next_due else None, has_more=is_full and self.is_due)


def _rest(transaction: SqliteTransaction, request: SqliteClaimRequest, *, is_cut: bool) -> _Rest:
    """Return what claims of a queue have left; ``is_cut``: jobs that are due are known to be among it."""
    first = None if is_cut else first_pending(transaction, request)
    return _Rest(True, None) if is_cut or (first is not None and first <= transaction.now) else _Rest(False, first)


def _hand_out(
    transaction: SqliteTransaction, found: Sequence[tuple[str, Claimable]], shares: Sequence[_Share]
) -> list[int]:
    """Claim jobs for the dequeues that want them, in turn; return their ids."""
    sizes = [size for _, jobs in found for size in jobs.sizes]
    ids = [local_id for _, jobs in found for local_id in jobs.ids]
    claims: list[tuple[int, str, int]] = []
    parts: list[tuple[_Share, slice]] = []
    end = 0
    for share in shares:
        start, end = end, share.take(sizes, end)
        if start < end:
            parts.append((share, slice(start, end)))
            claims += [(local_id, share.request.claim, share.request.lease_ms) for local_id in ids[start:end]]
    if claims:
        transaction.run(_CLAIM_OF_MANY, (transaction.now, msgspec.json.encode(claims).decode()))
    jobs_found = [job for prefix, jobs in found for job in jobs.with_bodies(transaction.rows, prefix)]
    for share, part in parts:
        share.jobs += jobs_found[part]
    return ids[:end]


def _claim_one(transaction: SqliteTransaction, request: SqliteClaimRequest, turns: _Turns) -> Dequeued:
    limit = request.limit
    if request.max_running is not None:
        free = request.max_running - int(transaction.rows(_CLAIMED, (request.queue_id,))[0][0])
        if free <= 0:
            return Dequeued([], None, has_more=False, is_held=True)
        limit = min(limit, free)
    jobs, is_cut = _claim_due(transaction, request, limit, turns)
    is_full = is_cut or len(jobs) >= limit
    if is_full and limit < request.limit:
        return Dequeued(jobs, None, has_more=False, is_held=True)
    return _rest(transaction, request, is_cut=is_cut).after(request, jobs, is_full=is_full)


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

    def end(self) -> set[int]:
        """Let through the jobs of all queues whose turn it is; return the ids of the queues that have any."""
        return {queue_id for queue_id in tuple(self._claimed) if self.let_next_through(queue_id)}


def first_pending(transaction: SqliteTransaction, request: SqliteClaimRequest) -> int | None:
    """Return when the first PENDING job of a dequeue's queue falls or fell due; None if none is PENDING."""
    [(due,)] = transaction.rows(_FIRST_PENDING, (request.queue_id, id_list(range(1, len(request.prefixes) + 1))))
    return int(due) if due is not None else None
