"""Enqueue and import: nothing -> a job. Many calls' jobs in one statement and one commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.mysql.call_results import keep_new, recall
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import Batch
from pinlater.server.backends.mysql.ids import Ids
from pinlater.server.backends.mysql.queries import blob, text
from pinlater.server.backends.mysql.queues import not_found
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import IdempotencyKey, JobRecord, NewJob
from pinlater.server.backends.search import Queue
from pinlater.server.backends.sharded import CallResult

STATEMENT_BYTES = 1_000_000
"""An insertion is closed when it is larger than this; the server parses it as a whole."""

_JOB_BYTES = 100
"""What a row is beside its body."""

Writer = Callable[[Any, int, int, int], bytes]
"""Returns a job's row: job, id, queue id, now."""


@dataclass(slots=True)
class StoreRequest:
    """Jobs for one queue; all are stored, or none.

    Attributes:
        queue: this queue.
        jobs: new ones, or records of another store.
        priorities: of each job.
        keys: unique key of each job; None when no job has one.
        write: makes their rows.
        once: what the call is known by when it is sent again.
        first_id: job number n gets the id ``first_id + n``, whatever number of attempts it takes. 0: not known yet.
        weight: what it adds to a transaction, in bytes.
    """

    queue: Queue
    jobs: Sequence[Any]
    priorities: Sequence[int]
    keys: Sequence[str | None] | None
    write: Writer
    once: IdempotencyKey | None = None
    first_id: int = 0
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        self.weight = sum(len(job.body or b"") for job in self.jobs) + _JOB_BYTES * len(self.jobs)

    def name(self, place: int) -> str:
        """Return the descriptor of a job."""
        return f"{self.queue.prefixes[self.priorities[place] - 1]}{self.first_id + place}"


def enqueue(queue: Queue, jobs: Sequence[NewJob], once: IdempotencyKey | None) -> StoreRequest:
    """Return the request to store new jobs."""
    keys = [job.unique_key for job in jobs]
    return StoreRequest(queue, jobs, [job.priority for job in jobs], keys if any(keys) else None, _new_row, once)


def import_(queue: Queue, jobs: Sequence[JobRecord], once: IdempotencyKey | None) -> StoreRequest:
    """Return the request to store jobs with a past; nobody here holds their claims."""
    there = [job._replace(state=PENDING) if job.state == IN_PROGRESS else job for job in jobs]
    keys = [job.unique_key if job.state == PENDING else None for job in there]
    priorities = [JobDescriptor.parse(job.descriptor).priority for job in there]
    there = [job._replace(unique_key=key) for job, key in zip(there, keys, strict=True)]
    return StoreRequest(queue, there, priorities, keys if any(keys) else None, _old_row, once)


def _new_row(job: NewJob, local_id: int, queue_id: int, now: int) -> bytes:
    body, priority, run_after, attempts, status, key = job
    at = now if run_after is None else run_after
    numbers = (local_id, queue_id, priority, at, now, now, attempts, attempts, len(body))
    texts = (b"NULL" if key is None else blob(key.encode()), text(status) if status else b"''", blob(body))
    return b"(%d,%d,0,%d,%d,NULL,%d,%d,%d,%d,%d,%b,%b,%b)" % (*numbers, *texts)


def _old_row(job: JobRecord, local_id: int, queue_id: int, _: int) -> bytes:
    body, key = job.body or b"", job.unique_key
    priority = JobDescriptor.parse(job.descriptor).priority
    moment = b"NULL" if job.state == PENDING else b"%d" % job.updated_at_ms
    times = (job.created_at_ms, job.updated_at_ms)
    attempts = (job.attempts_allowed, job.attempts_remaining, len(body))
    texts = (b"NULL" if key is None else blob(key.encode()), text(job.status), blob(body))
    head = (local_id, queue_id, job.state, priority, job.run_after_ms, moment)
    return b"(%d,%d,%d,%d,%d,%b,%d,%d,%d,%d,%d,%b,%b,%b)" % (*head, *times, *attempts, *texts)


StoreBatch = Batch[StoreRequest, list[str]]

Row = tuple[StoreRequest, int]
"""A job of a request, by its place."""

_Twins = dict[tuple[int, int], str]
"""Jobs that are not stored, by identity of their request and place -> descriptor of the job that has their key."""


class Storer:
    """Stores jobs.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids = Ids(database)

    async def store(self, batch: StoreBatch) -> None:
        """Make one attempt at a batch; the result of a request is its jobs' descriptors."""
        for request in batch.requests:
            if not request.first_id:
                request.first_id = await self._ids.take(len(request.jobs))
        missing: set[int] = set()
        while True:
            there = [request for request in batch.requests if request.queue.id not in missing]
            try:
                async with self._database.transaction() as transaction:
                    names = await _store(transaction, there, batch)
                break
            except _QueuesGone as error:  # nothing was stored: the others' jobs once more
                missing |= error.queue_ids
        batch.answer(
            [
                not_found(request.queue.name) if request.queue.id in missing else names[id(request)]
                for request in batch.requests
            ]
        )


class _QueuesGone(Exception):
    """Queues were deleted by another server."""

    def __init__(self, queue_ids: set[int]) -> None:
        super().__init__(f"queues {queue_ids} are gone")
        self.queue_ids = queue_ids


Names = dict[int, list[str]]
"""By identity of a request, the descriptors of its jobs."""


async def _store(transaction: Transaction, requests: Sequence[StoreRequest], batch: StoreBatch) -> Names:
    """Store and commit; return the jobs' descriptors."""
    wanted = sorted({request.queue.id for request in requests})
    if batch.conflicts:  # over a key: with the others' attempts out of the way, this one succeeds
        await transaction.rows("enter_alone", queues=wanted)
    known = await _known(transaction, requests, is_doubtful=batch.is_uncertain or batch.conflicts > 0)
    fresh = _first_ones(request for request in requests if id(request) not in known)
    # An attempt whose connection broke at its end may have been committed. The ids tell, as none is used twice.
    stored = await _stored(transaction, fresh) if batch.is_uncertain else set()
    twins = await _twins(transaction, fresh, stored)
    rows = [
        (request, place)
        for request in fresh
        if request.keys is not None or request.first_id not in stored
        for place in range(len(request.jobs))
        if (id(request), place) not in twins and request.first_id + place not in stored
    ]
    if any(request.keys is not None for request in fresh):
        rows.sort(key=_place_in_index)
    held, *_ = await transaction.run(
        transaction.bind("hold_queues", queues=wanted),
        *(_insertions(transaction, rows) if rows else ()),
        *keep_new(transaction, _results(fresh, twins)),
    )
    missing = set(wanted) - {queue_id for (queue_id,) in held.rows}
    if missing:
        raise _QueuesGone(missing)
    with batch.committing():
        await transaction.commit()
    return _with_repeats(requests, known | {id(request): _names(request, twins) for request in fresh})


async def _known(transaction: Transaction, requests: Sequence[StoreRequest], *, is_doubtful: bool) -> Names:
    """Return what was carried out before. A first try is not looked up: should it be a second one, its key is there."""
    asked = [request for request in requests if request.once is not None and (is_doubtful or request.once.is_repeat)]
    results = await recall(transaction, {request.once.value for request in asked if request.once})
    return {
        id(request): results[request.once.value].names(request.queue.head, request.priorities)
        for request in asked
        if request.once and request.once.value in results
    }


def _first_ones(requests: Iterable[StoreRequest]) -> list[StoreRequest]:
    """Return the requests without those that repeat another one of them."""
    firsts: dict[object, StoreRequest] = {}
    for request in requests:
        firsts.setdefault(id(request) if request.once is None else request.once.value, request)
    return list(firsts.values())


def _with_repeats(requests: Sequence[StoreRequest], names: Names) -> Names:
    """Add those that repeat another request of the same transaction."""
    if len(names) == len(requests):
        return names
    firsts = {request.once.value: names[id(request)] for request in requests if request.once and id(request) in names}
    return {id(request): firsts[request.once.value] for request in requests if request.once} | names


def _results(requests: Iterable[StoreRequest], twins: _Twins) -> Iterator[tuple[IdempotencyKey, CallResult]]:
    """Yield what calls with keys are remembered by."""
    elsewhere: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (request_id, place), name in twins.items():
        job = JobDescriptor.parse(name)
        elsewhere[request_id].append((place, job.priority, job.local_id))
    for request in requests:
        if request.once is not None:
            yield request.once, CallResult(request.first_id, elsewhere.get(id(request), ()))


def _place_in_index(row: Row) -> tuple[int, str]:
    """Return where the unique index has a job; servers that stored the same keys in other orders would deadlock."""
    request, place = row
    return request.queue.id, (request.keys[place] if request.keys is not None else None) or ""


def _names(request: StoreRequest, twins: _Twins) -> list[str]:
    if request.keys is not None:
        return [twins.get((id(request), place)) or request.name(place) for place in range(len(request.jobs))]
    prefixes = request.queue.prefixes
    return [
        f"{prefixes[priority - 1]}{local_id}" for local_id, priority in enumerate(request.priorities, request.first_id)
    ]


async def _stored(transaction: Transaction, requests: Sequence[StoreRequest]) -> set[int]:
    """Return which jobs are there: of a request without keys the first speaks for all."""
    ids = [
        request.first_id + place
        for request in requests
        for place in range(1 if request.keys is None else len(request.jobs))
    ]
    return {local_id for (local_id,) in await transaction.rows("stored_ids", ids=ids)}


async def _twins(transaction: Transaction, requests: Sequence[StoreRequest], stored: set[int]) -> _Twins:
    """Return the jobs whose keys others have, stored already or earlier in this batch, with the names of those."""
    keyed = [request for request in requests if request.keys is not None]
    holders: dict[tuple[int, str], str] = {}
    for queue in {request.queue for request in keyed}:
        keys = {key for request in keyed if request.queue == queue for key in request.keys or () if key is not None}
        rows = await transaction.rows("unique_jobs", queue=queue.id, keys=sorted(key.encode() for key in keys))
        holders |= {(queue.id, key.decode()): f"{queue.prefixes[priority - 1]}{at}" for key, priority, at in rows}
    twins: _Twins = {}
    for request in keyed:
        for place, key in enumerate(request.keys or ()):
            if key is not None and request.first_id + place not in stored:
                holder = holders.setdefault((request.queue.id, key), request.name(place))
                if holder != request.name(place):
                    twins[id(request), place] = holder
    return twins


def _insertions(transaction: Transaction, rows: Sequence[Row]) -> Iterator[bytes]:
    head = transaction.bind("insert_jobs")
    written: list[bytes] = []
    size = 0
    for request, place in rows:
        row = request.write(request.jobs[place], request.first_id + place, request.queue.id, transaction.now)
        if written and size + len(row) > STATEMENT_BYTES:
            yield head + b",".join(written)
            written, size = [], 0
        written.append(row)
        size += len(row)
    yield head + b",".join(written)
