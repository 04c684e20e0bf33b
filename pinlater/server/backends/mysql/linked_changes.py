"""Changes of jobs with keys or parents: other jobs of the key, and the parent, are updated in the same transaction.

As long as no job of a queue is known to have a key or a parent, acks and checkpoints do not check for them. A statement
that meets such a job is rejected, and the batch is executed again with the updates that keys and parents need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pinlater.server.backends.mysql.children import tell, tell_parents_of, told_children
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.errors import NullRejected
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.keys import Keys, QueueKey, ended_in, keys_in, keys_of, let_next_through
from pinlater.server.backends.mysql.transaction import MysqlTransaction


class Links(NamedTuple):
    """The links that jobs are expected to have; a statement that meets a job with another link is rejected."""

    has_keys: bool
    has_parents: bool


class Changed(NamedTuple):
    """The outcome of statements that changed jobs.

    Attributes:
        results: results of the statements.
        keys: keys of the jobs, by job id.
        through: how many jobs of each key were let through and not yet reported to a call.
        child_queues: ids of the queues of jobs that have a parent and have finished.
    """

    results: Sequence[StatementResult]
    keys: Keys
    through: Counter[QueueKey]
    child_queues: Collection[int] = ()

    def let_through(self, ids: Iterable[int]) -> int:
        """Return how many jobs a call has let through, given the ids of its jobs; each key counts for one call only."""
        return sum(self.through.pop(self.keys[local_id], 0) for local_id in ids if local_id in self.keys)


async def lock_in_order(transaction: MysqlTransaction, ids: Sequence[int], links: Links) -> None:
    """Lock jobs, and the parents that they may report to, in the order of ids; used after a conflict."""
    wanted = set(ids)
    if links.has_parents:
        wanted |= {parent_id for (parent_id,) in await transaction.rows("parents_of_jobs", ids=ids)}
    await transaction.rows("lock_jobs", ids=sorted(wanted))


async def change_and_commit(
    transaction: MysqlTransaction,
    batch: CommitBatch[Any, Any],
    statements: Sequence[bytes],
    ids: Sequence[int],
    links: Links,
) -> Changed:
    """Execute statements that change jobs, and commit.

    Args:
        transaction: the transaction to commit.
        batch: the batch that it carries out.
        statements: the statements to execute.
        ids: ids of the jobs that may have finished or been given back.
        links: the links that these jobs may have.
    """
    if not ids or not any(links):
        with batch.committing():
            return Changed(await transaction.run_and_commit(*statements) if statements else (), {}, Counter())
    queries = [transaction.bind("keys_of_jobs", ids=ids)] if links.has_keys else []
    queries += [told_children(transaction, ids)] if links.has_parents else []
    found = await transaction.run(*statements, *queries)
    of_keys = found[len(statements)].rows if links.has_keys else ()
    keys = keys_in(of_keys)
    woken = await tell(transaction, found[-1]) if links.has_parents else {}
    through = (await let_next_through(transaction, keys | woken, ended=ended_in(of_keys))).counts
    with batch.committing():
        await transaction.run_and_commit()
    child_queues = {queue_id for queue_id, *_ in found[-1].rows} if links.has_parents else ()
    return Changed(found[: len(statements)], keys, through, child_queues)


async def see_to_links(transaction: MysqlTransaction, ids: Collection[int]) -> int:
    """Report the changed jobs that have finished to their parents, and let other jobs of their keys through.

    Return how many were let through.
    """
    keys = await keys_of(transaction, ids)
    woken = await tell_parents_of(transaction, ids)
    through = (await let_next_through(transaction, keys | woken)).counts
    return sum(count for key, count in through.items() if key in set(keys.values()))


async def with_links_if_needed(
    database: Database, batch: CommitBatch[Any, Any], attempt: Callable[[Links], Awaitable[Changed]]
) -> Changed:
    """Attempt the calls of a batch as if no job had a key or a parent, unless their queues are known to have such jobs.

    Args:
        database: the shard's database.
        batch: the calls, each with its queue.
        attempt: receives the links that jobs are expected to have; fails with ``NullRejected`` if they have others.
    """
    queues = {call.queue.id for call in batch.requests}
    links = Links(not queues.isdisjoint(database.keyed_queues), not queues.isdisjoint(database.child_queues))
    if not all(links):
        with suppress(NullRejected):
            return await attempt(links)
    changed = await attempt(Links(has_keys=True, has_parents=True))
    database.keyed_queues.update(key.queue_id for key in changed.keys.values())
    database.child_queues.update(changed.child_queues)
    return changed
