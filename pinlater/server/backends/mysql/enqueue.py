"""Enqueue and import: none -> PENDING, or the imported state. Jobs of many calls share statements and a commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Parent
from pinlater.server.backends.mysql import unique_keys
from pinlater.server.backends.mysql.call_results import find_results, insert_results
from pinlater.server.backends.mysql.children import able_parents, insert_children
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.enqueue_call import MysqlEnqueueCall
from pinlater.server.backends.mysql.errors import NullRejected, TransactionConflict
from pinlater.server.backends.mysql.failure_groups import Kept, keep
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.ids import IdAllocator
from pinlater.server.backends.mysql.job_rows import Row, insert_statements
from pinlater.server.backends.mysql.keys import keep_rates, keys_of, let_next_through
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.mysql.unique_keys import Duplicates, UniqueJob
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sharded import CallResult
from pinlater.server.backends.store import parent_refused, queue_not_found

EnqueueBatch = CommitBatch[MysqlEnqueueCall, list[str]]


class JobInserter:
    """Inserts the jobs of calls.

    Args:
        database: the shard's database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids = IdAllocator(database)

    async def insert(self, batch: EnqueueBatch) -> None:
        """Attempt the calls of a batch; the result of each call is the descriptors of its jobs."""
        if batch.conflicts and not batch.is_uncertain:
            await self._drop_taken_ids(batch.requests)
        for call in batch.requests:
            if not call.first_id:
                call.first_id = await self._ids.allocate(len(call.jobs))
        self._database.keyed_queues.update(call.queue.id for call in batch.requests if call.has_keys)
        self._database.child_queues.update(call.queue.id for call in batch.requests if call.has_parents)
        kept = await keep(
            self._database, ((call.queue.id, each) for call in batch.requests for each in call.failures if each)
        )
        missing: set[int] = set()
        answers: Answers = {}
        while calls := [call for call in batch.requests if call.queue.id not in missing]:
            try:
                async with self._database.transaction() as transaction:
                    answers = await _insert(transaction, calls, batch, kept)
                break
            except _QueuesMissing as error:  # it was rolled back: insert the jobs of the other queues
                missing |= error.queue_ids
        batch.answer(
            [
                queue_not_found(call.queue.name) if call.queue.id in missing else answers[id(call)]
                for call in batch.requests
            ]
        )

    async def _drop_taken_ids(self, calls: Sequence[MysqlEnqueueCall]) -> None:
        """Drop the ids of calls that have stored nothing if other jobs have some of them.

        The reservation of their block was lost if the database was replaced by a copy that lacks the latest changes: by
        a replica that was behind, or by a backup. Another server has reserved these ids since.
        """
        ids = [call.first_id + index for call in calls if call.first_id for index in range(len(call.jobs))]
        if await self._database.rows(self._database.queries.bind("stored_ids", ids=ids)):
            self._ids.drop_block()
            for call in calls:
                call.first_id = 0


class _QueuesMissing(Exception):
    """Queues were deleted by another server."""

    def __init__(self, queue_ids: set[int]) -> None:
        super().__init__(f"queues {queue_ids} were deleted")
        self.queue_ids = queue_ids


Answers = dict[int, list[str] | Exception]
"""Identity of a call -> descriptors of its jobs, or the error that says why none was stored."""


class _NewJobs(NamedTuple):
    """What a transaction has to insert.

    Attributes:
        calls: the calls that insert jobs; of those with the same idempotency key, one.
        stored: ids of their jobs that an earlier attempt has stored.
        answers: the answers to the calls that insert none.
    """

    calls: list[MysqlEnqueueCall]
    stored: set[int]
    answers: Answers


async def _insert(
    transaction: MysqlTransaction, calls: Sequence[MysqlEnqueueCall], batch: EnqueueBatch, kept: Kept
) -> Answers:
    """Insert the jobs of calls and commit; return the answers to the calls."""
    queue_ids = sorted({call.queue.id for call in calls})
    if batch.conflicts:  # over a unique key: with no concurrent inserts into these queues, this attempt succeeds
        await transaction.rows("lock_queues", queues=queue_ids)
    new = await _new_jobs(transaction, calls, batch)
    keyed = list(_unique_jobs(new))
    resolution = await unique_keys.resolve(transaction, keyed)
    duplicates, contents = resolution.duplicates, resolution.contents
    rows = _rows(new, duplicates)
    if queues_without_rows := set(queue_ids) - {call.queue.id for call, _ in rows}:
        await _check_queues(transaction, queues_without_rows)
    await unique_keys.replace(transaction, resolution, queue_ids)
    await unique_keys.begin_periods(transaction, (job for job in keyed if job.slot not in duplicates))
    has_parents = any(call.has_parents for call in new.calls)
    inserted, places = await insert_statements(transaction, rows, contents)
    statements = [
        *unique_keys.statements(transaction, resolution, queue_ids),
        *inserted,
        *insert_results(transaction, _results(new.calls, duplicates)),
        *_failures(transaction, (row for row in rows if (id(row[0]), row[1]) not in contents), kept),
        *(insert_children(transaction, _children(rows), calls[0].queue.shard) if has_parents else ()),
    ]
    replaced = await keys_of(transaction, (local_id for local_id, *_ in resolution.replacements))
    if decided := sorted(places.run_after.keys() - places.undecided):
        statements.append(transaction.bind("copy_keyed_jobs", ids=decided))
    try:
        if keys := replaced | places.undecided:
            if any(call.has_imported_rates for call in new.calls):
                statements += keep_rates(transaction, places.undecided)
            await let_next_through(transaction, keys, before=statements, ended=())
            statements = []
        with batch.committing():
            await transaction.run_and_commit(*statements)
    except NullRejected as error:
        await _check_queues(transaction, queue_ids)
        if has_parents:  # one has ended meanwhile; the next attempt finds out which
            raise TransactionConflict(str(error)) from error
        raise
    return _with_repeats(calls, new.answers | {id(call): _descriptors(call, duplicates) for call in new.calls})


async def _new_jobs(transaction: MysqlTransaction, calls: Sequence[MysqlEnqueueCall], batch: EnqueueBatch) -> _NewJobs:
    """Find out what has to be inserted: not what an earlier execution has stored, nor children of ended parents."""
    known = await _known(transaction, calls, is_doubtful=batch.is_uncertain or batch.conflicts > 0)
    new = _without_repeats(call for call in calls if id(call) not in known)
    # An attempt whose connection broke at the commit may have been committed. The ids tell, as none is ever reused.
    stored = await _stored_ids(transaction, new) if batch.is_uncertain else set()
    refused = await _refused(transaction, [call for call in new if call.has_parents and call.first_id not in stored])
    return _NewJobs([call for call in new if id(call) not in refused], stored, known | refused)


def _rows(new: _NewJobs, duplicates: Duplicates) -> list[Row]:
    """Return the jobs to insert, in the order in which their queues and unique keys are locked."""
    rows = [
        (call, index)
        for call in new.calls
        if call.keys is not None or call.first_id not in new.stored
        for index in range(len(call.jobs))
        if (id(call), index) not in duplicates and call.first_id + index not in new.stored
    ]
    if any(call.keys is not None or call.queue.id != new.calls[0].queue.id for call in new.calls):
        rows.sort(key=_lock_order)
    return rows


def _failures(transaction: MysqlTransaction, rows: Iterable[Row], kept: Kept) -> Iterator[bytes]:
    """Yield the statements that put imported jobs into their failure groups."""
    failing: defaultdict[int, list[int]] = defaultdict(list)
    for call, index in rows:
        failure = call.failures[index] if call.failures else None
        if failure is not None:
            failing[kept[call.queue.id, failure.group]].append(call.first_id + index)
    for group, ids in failing.items():
        yield transaction.bind("set_failure_group", failure_group=group, ids=sorted(ids))
        yield transaction.bind("insert_failing_jobs", ids=sorted(ids))


async def _refused(transaction: MysqlTransaction, calls: Sequence[MysqlEnqueueCall]) -> Answers:
    """Return the errors of calls with a parent on this shard that does not exist, has finished or is asked to stop."""
    if not calls:
        return {}
    named = {text: JobDescriptor.parse(text) for call in calls for text in call.parents}
    parents = {text: parent for text, parent in named.items() if parent.shard == calls[0].queue.shard}
    able = await able_parents(transaction, parents.values())
    missing = {text for text, parent in parents.items() if parent not in able}
    return {id(call): parent_refused(lost[0]) for call in calls if (lost := [*missing & call.parents])}


def _children(rows: Iterable[Row]) -> Iterator[tuple[int, Parent]]:
    """Yield the ids of the jobs that have a parent, each with the parent."""
    for call, index in rows:
        parent = call.jobs[index].parent
        if parent is not None:
            yield call.first_id + index, parent


async def _check_queues(transaction: MysqlTransaction, queue_ids: Collection[int]) -> None:
    """Check that queues exist, and keep them from being deleted until the transaction ends.

    Raises:
        _QueuesMissing: some were deleted.
    """
    held = await transaction.rows("share_queues", queues=sorted(queue_ids))
    missing = set(queue_ids) - {queue_id for (queue_id,) in held}
    if missing:
        raise _QueuesMissing(missing)


async def _known(transaction: MysqlTransaction, calls: Sequence[MysqlEnqueueCall], *, is_doubtful: bool) -> Answers:
    """Return what earlier executions of the calls have stored.

    First executions are not looked up: if one turns out to be a repeat, storing its result is a conflict, and the next
    attempt looks it up.
    """
    keyed = [call for call in calls if call.once is not None and (is_doubtful or call.once.is_repeat)]
    results = await find_results(transaction, {call.once.value for call in keyed if call.once})
    return {
        id(call): results[call.once.value].names(call.queue.head, call.priorities)
        for call in keyed
        if call.once and call.once.value in results
    }


def _without_repeats(calls: Iterable[MysqlEnqueueCall]) -> list[MysqlEnqueueCall]:
    """Return the calls without those that repeat an earlier one in the list."""
    firsts: dict[object, MysqlEnqueueCall] = {}
    for call in calls:
        firsts.setdefault(id(call) if call.once is None else call.once.value, call)
    return list(firsts.values())


def _with_repeats(calls: Sequence[MysqlEnqueueCall], answers: Answers) -> Answers:
    """Add the results of calls that repeat another one in the same transaction."""
    if len(answers) == len(calls):
        return answers
    firsts = {call.once.value: answers[id(call)] for call in calls if call.once and id(call) in answers}
    return {id(call): firsts[call.once.value] for call in calls if call.once} | answers


def _results(calls: Iterable[MysqlEnqueueCall], duplicates: Duplicates) -> Iterator[tuple[IdempotencyKey, CallResult]]:
    """Yield the results to store for calls with an idempotency key."""
    elsewhere: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (call_id, index), descriptor in duplicates.items():
        job = JobDescriptor.parse(descriptor)
        elsewhere[call_id].append((index, job.priority, job.local_id))
    for call in calls:
        if call.once is not None:
            yield call.once, CallResult(call.first_id, elsewhere.get(id(call), ()))


def _lock_order(row: Row) -> tuple[int, str]:
    """Return the sort key, by queue and unique key; servers that locked these in different orders would deadlock."""
    call, index = row
    return call.queue.id, (call.keys[index] if call.keys is not None else None) or ""


def _descriptors(call: MysqlEnqueueCall, duplicates: Duplicates) -> list[str]:
    if call.keys is not None:
        return [duplicates.get((id(call), index)) or call.descriptor(index) for index in range(len(call.jobs))]
    prefixes = call.queue.prefixes
    return [f"{prefixes[priority - 1]}{local_id}" for local_id, priority in enumerate(call.priorities, call.first_id)]


async def _stored_ids(transaction: MysqlTransaction, calls: Sequence[MysqlEnqueueCall]) -> set[int]:
    """Return the ids that were stored; for a call without unique keys, the first stands for all."""
    ids = [call.first_id + index for call in calls for index in range(1 if call.keys is None else len(call.jobs))]
    return {local_id for (local_id,) in await transaction.rows("stored_ids", ids=ids)}


def _unique_jobs(new: _NewJobs) -> Iterator[UniqueJob]:
    """Yield the jobs with unique keys, except those that an earlier attempt has stored."""
    for call in new.calls:
        for index, key in enumerate(call.keys or ()):
            local_id = call.first_id + index
            if key is not None and local_id not in new.stored:
                slot, priority = (id(call), index), call.priorities[index]
                yield UniqueJob(slot, call.queue, key, priority, local_id, call.jobs[index])
