"""Changes of jobs that do not come from workers: retries, deletions, expiry and collection, page by page.

Each page is atomic. Several servers may do the same at once, and no job is changed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.batches import change_in_steps
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.records import Collected, Expired, JobFilter, Once
from pinlater.server.backends.redis import failure_groups
from pinlater.server.backends.redis.connection import SharedConnection
from pinlater.server.backends.redis.due_index import due_queues, forget_queue
from pinlater.server.backends.redis.failure_groups import EXPIRY_ARGUMENTS
from pinlater.server.backends.redis.lifecycle import key_arguments, pack
from pinlater.server.backends.redis.messages import drop_leftovers
from pinlater.server.backends.redis.reads import RedisReads, RedisSearch, pages
from pinlater.server.backends.redis.script_calls import PAGE_JOBS, ScriptRunner
from pinlater.server.clock import milliseconds_since


class _Deletion(NamedTuple):
    """Jobs to delete, if they are still in a state."""

    state: int
    priority: int
    ids: Sequence[int]


class RedisMaintenance(RedisReads):
    """The part of a shard that changes jobs for operators and for the monitor."""

    _slow_connection: SharedConnection

    async def retry_failed_jobs(
        self, queue: str, priority: int, attempts: int, run_after_ms: int | None, limit: int, *, once: Once = None
    ) -> int:
        # A page is repeatable only with an idempotency key; without one, too many jobs would be retried.
        result_arguments, is_repeatable = (*key_arguments(once), limit), once is not None
        moved = 0
        page: int
        while True:
            size = max(min(limit - moved, PAGE_JOBS), 0)
            job_arguments = (priority, attempts, _or_now(run_after_ms), size)
            page, total = await self._slow_scripts.run(
                "retry_failed", queue, *result_arguments, *job_arguments, is_repeatable=is_repeatable
            )
            moved = total if once else moved + page
            if page < size or moved >= limit:
                return moved

    async def retry_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], attempts: int, run_after_ms: int | None, *, once: Once = None
    ) -> int:
        return await self._change_these("retry_jobs", queue, jobs, (attempts, _or_now(run_after_ms)), once)

    async def schedule_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], run_after_ms: int | None, *, once: Once = None
    ) -> int:
        return await self._change_these("schedule_jobs", queue, jobs, (_or_now(run_after_ms),), once)

    async def _change_these(
        self, script: str, queue: str, jobs: Sequence[JobDescriptor], arguments: tuple[int | str, ...], once: Once
    ) -> int:
        packed = pack([(job.priority, job.local_id) for job in jobs])
        return int(
            await self._slow_scripts.run(
                script, queue, *key_arguments(once), *arguments, packed, is_repeatable=once is not None
            )
        )

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: Once = None
    ) -> int:
        by_priority = grouped((job.priority, job.local_id) for job in jobs)
        deleted = 0
        for priority, ids in by_priority.items() or [(1, [])]:  # without jobs, a missing queue is still an error
            # Each priority is a separate call to the shard.
            part = once and once._replace(value=once.value + b":p%d" % priority)
            _, total = await _delete_page(self._slow_scripts, queue, _Deletion(state, priority, ids), part)
            deleted += total
        return deleted

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: Once = None) -> int:
        scripts, search = self._slow_scripts, await self._search(queue, which)

        async def delete_page(deletion: _Deletion, deleted_before: int) -> int:
            most = limit if once else limit - deleted_before
            page, total = await _delete_page(scripts, queue, deletion, once, most)
            return total if once else deleted_before + page

        nothing = _Deletion(which.state, search.priorities[0], ())
        return await change_in_steps(
            _matching_pages(scripts, search, limit), delete_page, limit, nothing=nothing, pattern=search.pattern
        )

    async def reap_expired(
        self, limit: int, *, server_age_ms: int, quiet_ms: int, asked_at: float | None = None
    ) -> list[Expired]:
        # While the shard was down or refused changes, no claim could be renewed: as after a start of the server, give
        # their holders time.
        refusals = (scripts.seconds_since_refusal for scripts in (self._scripts, self._slow_scripts))
        age_ms = int(min(server_age_ms, 1000 * min(self._slow_connection.seconds_since_failure, *refusals)))
        grace, now = (age_ms, quiet_ms), self._time_at(asked_at)  # a claim that expired later may have been renewed
        result = []
        [queues] = await due_queues(self._slow_scripts, "claims", 0)
        for queue in queues:
            try:
                expired = await _reap_queue(self._slow_scripts, queue, limit, grace, now)
            except QueueNotFound:
                await forget_queue(self._slow_scripts, queue)
                continue
            limit -= expired.retried + expired.failed
            if expired.retried or expired.failed:
                result.append(expired)
            if limit <= 0:
                break
        return result

    def _time_at(self, moment: float | None) -> int | str:
        """Return the time argument of scripts for a moment in ``elapsed_seconds``; None is now."""
        now, ago_ms = self._slow_scripts.now(), milliseconds_since(moment)
        if isinstance(now, int):
            return now - ago_ms
        return f"~{int(now[1:]) - ago_ms}" if now else now

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        succeeded, failed = await due_queues(self._slow_scripts, "S", succeeded_ttl_ms, "F", failed_ttl_ms)
        by_queue_s = await self._collect_kind("s", succeeded, succeeded_ttl_ms, limit)
        by_queue_f = await self._collect_kind("f", failed, failed_ttl_ms, limit)
        queues = by_queue_s.keys() | by_queue_f.keys()
        return [Collected(queue, by_queue_s[queue], by_queue_f[queue]) for queue in queues]

    async def _collect_kind(self, kind: str, queues: Iterable[str], ttl_ms: int, limit: int) -> Counter[str]:
        deleted: Counter[str] = Counter()
        for queue in queues:
            try:
                deleted[queue] = await _collect_queue(self._slow_scripts, queue, kind, ttl_ms, limit - deleted.total())
            except QueueNotFound:
                await forget_queue(self._slow_scripts, queue)
            if deleted.total() >= limit:
                break
        return +deleted

    async def forget_results(self, limit: int) -> int:  # noqa: ARG002
        await drop_leftovers(self._slow_scripts)  # in case a server died while it deleted a queue
        return await failure_groups.forget(self._slow_scripts, self._levels)


def _or_now(time_ms: int | None) -> int | str:
    """Return a time in the form that scripts take; None is now."""
    return "" if time_ms is None else time_ms


async def _matching_pages(scripts: ScriptRunner, search: RedisSearch, limit: int) -> AsyncIterator[_Deletion]:
    for priority in search.priorities if limit else ():
        async for page in pages(scripts, search, priority, limit):
            if page:
                yield _Deletion(search.which.state, priority, [job.local_id for job in page])


async def _delete_page(
    scripts: ScriptRunner, queue: str, deletion: _Deletion, once: Once, most: int | None = None
) -> tuple[int, int]:
    """Delete jobs; return how many this call has deleted, and how many all calls with this key together.

    With ``most`` None, the first call with a key deletes all, and later ones nothing.
    """
    result_arguments = (*key_arguments(once), "" if most is None else most)
    job_arguments = (deletion.state, deletion.priority, pack(deletion.ids))
    page, total, *woken = await scripts.run(
        "delete_jobs", queue, *result_arguments, *job_arguments, is_repeatable=once is not None
    )
    scripts.tell_woken(woken)
    return page, total


async def _reap_queue(scripts: ScriptRunner, queue: str, limit: int, grace: tuple[int, int], now: int | str) -> Expired:
    """End expired claims; for ``grace``, see ``reap_expired.lua``."""
    retried = failed = skipped = 0
    while True:
        size = min(limit - retried - failed, PAGE_JOBS)
        seen, spared, page_retried, page_failed, *woken = await scripts.run(
            "reap_expired", queue, size, skipped, *grace, *EXPIRY_ARGUMENTS, at=now
        )
        scripts.tell_woken(woken)
        retried, failed, skipped = retried + page_retried, failed + page_failed, skipped + spared
        if seen < size or retried + failed >= limit:
            return Expired(queue, retried, failed)


async def _collect_queue(scripts: ScriptRunner, queue: str, kind: str, ttl_ms: int, limit: int) -> int:
    deleted = 0
    page: int
    while True:
        size = min(limit - deleted, PAGE_JOBS)
        page = await scripts.run("collect_finished", queue, kind, ttl_ms, size)
        deleted += page
        if page < size or deleted >= limit:
            return deleted
