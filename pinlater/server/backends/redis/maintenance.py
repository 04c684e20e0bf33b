"""Changes of jobs that do not come from workers: retries, deletions, expiry and collection, page by page.

Each page is atomic. Several servers may do the same at once, and no job is changed twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.batches import change_in_steps
from pinlater.server.backends.records import Collected, Expired, Once
from pinlater.server.backends.redis.due_index import DueIndex
from pinlater.server.backends.redis.failure_groups import EXPIRY_ARGUMENTS
from pinlater.server.backends.redis.lifecycle import key_arguments, pack
from pinlater.server.backends.redis.reads import PAGE_JOBS, RedisSearch, pages
from pinlater.server.backends.redis.script_calls import ScriptRunner


class RedisRetry(NamedTuple):
    """FAILED -> PENDING, up to ``limit`` jobs of one priority."""

    priority: int
    attempts: int
    run_after_ms: int | None
    limit: int
    once: Once


class ExpiryGrace(NamedTuple):
    """Which expired claims to spare.

    Attributes:
        asked_at: spare those that expired after this time, since the server may have been suspended; a time argument
            as ``ScriptRunner.now`` returns it.
        age_ms: age of the server; while it is below ``quiet_ms``, spare claims whose lease is longer than the age.
        quiet_ms: see ``age_ms``.
    """

    asked_at: int | str
    age_ms: int
    quiet_ms: int


async def retry_failed(scripts: ScriptRunner, queue: str, request: RedisRetry) -> int:
    """Retry failed jobs, the oldest first: FAILED -> PENDING. Return how many.

    A page is repeatable only with an idempotency key; without one, too many jobs would be retried.
    """
    run_after = "" if request.run_after_ms is None else request.run_after_ms
    result_arguments, is_repeatable = (*key_arguments(request.once), request.limit), request.once is not None
    moved = 0
    page: int
    while True:
        size = max(min(request.limit - moved, PAGE_JOBS), 0)
        job_arguments = (request.priority, request.attempts, run_after, size)
        page, total = await scripts.run(
            "retry_failed", queue, *result_arguments, *job_arguments, is_repeatable=is_repeatable
        )
        moved = total if request.once else moved + page
        if page < size or moved >= request.limit:
            return moved


async def retry_jobs(
    scripts: ScriptRunner,
    queue: str,
    jobs: Sequence[JobDescriptor],
    attempts: int,
    run_after_ms: int | None,
    *,
    once: Once,
) -> int:
    """Retry those of the jobs that have failed: FAILED -> PENDING. Return how many."""
    packed = pack([(job.priority, job.local_id) for job in jobs])
    job_arguments = (attempts, "" if run_after_ms is None else run_after_ms, packed)
    is_repeatable = once is not None
    moved: int = await scripts.run(
        "retry_jobs", queue, *key_arguments(once), *job_arguments, is_repeatable=is_repeatable
    )
    return moved


async def schedule_jobs(
    scripts: ScriptRunner, queue: str, jobs: Sequence[JobDescriptor], run_after_ms: int | None, *, once: Once
) -> int:
    """Make those of the jobs that are PENDING due at ``run_after_ms``; return how many were changed.

    With None, those that are not due yet become due now.
    """
    packed = pack([(job.priority, job.local_id) for job in jobs])
    job_arguments = ("" if run_after_ms is None else run_after_ms, packed)
    moved: int = await scripts.run(
        "schedule_jobs", queue, *key_arguments(once), *job_arguments, is_repeatable=once is not None
    )
    return moved


async def delete_jobs(scripts: ScriptRunner, queue: str, jobs: Sequence[JobDescriptor], state: int, once: Once) -> int:
    """Delete those of the jobs that are in a state. Return how many."""
    by_priority: defaultdict[int, list[int]] = defaultdict(list)
    for job in jobs:
        by_priority[job.priority].append(job.local_id)
    deleted = 0
    for priority, ids in by_priority.items() or [(1, [])]:  # without jobs, a missing queue is still an error
        # Each priority is a separate call to the shard.
        part = once and once._replace(value=once.value + b":p%d" % priority)
        _, total = await _delete_page(scripts, queue, _Deletion(state, priority, ids), part)
        deleted += total
    return deleted


class _Deletion(NamedTuple):
    """Jobs to delete, if they are still in a state."""

    state: int
    priority: int
    ids: Sequence[int]


async def delete_matching(scripts: ScriptRunner, search: RedisSearch, limit: int, once: Once) -> int:
    """Delete matching jobs that are still in the state of the filter. Return how many."""

    async def delete_page(deletion: _Deletion, deleted_before: int) -> int:
        most = limit if once else limit - deleted_before
        page, total = await _delete_page(scripts, search.queue, deletion, once, most)
        return total if once else deleted_before + page

    nothing = _Deletion(search.which.state, search.priorities[0], ())
    return await change_in_steps(
        _matching_pages(scripts, search, limit), delete_page, limit, nothing=nothing, pattern=search.pattern
    )


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


async def reap_expired(scripts: ScriptRunner, due_index: DueIndex, limit: int, grace: ExpiryGrace) -> list[Expired]:
    """End up to ``limit`` expired claims: IN_PROGRESS -> PENDING or FAILED."""
    result = []
    for queue in await due_index.queues_with_expired():
        try:
            expired = await _reap_queue(scripts, queue, limit, grace)
        except QueueNotFound:
            await due_index.rebuild(queue)
            continue
        limit -= expired.retried + expired.failed
        if expired.retried or expired.failed:
            result.append(expired)
        if limit <= 0:
            break
    return result


async def _reap_queue(scripts: ScriptRunner, queue: str, limit: int, grace: ExpiryGrace) -> Expired:
    retried = failed = skipped = 0
    while True:
        size = min(limit - retried - failed, PAGE_JOBS)
        seen, spared, page_retried, page_failed, *woken = await scripts.run(
            "reap_expired", queue, size, skipped, grace.age_ms, grace.quiet_ms, *EXPIRY_ARGUMENTS, at=grace.asked_at
        )
        scripts.tell_woken(woken)
        retried, failed, skipped = retried + page_retried, failed + page_failed, skipped + spared
        if seen < size or retried + failed >= limit:
            return Expired(queue, retried, failed)


async def collect_finished(
    scripts: ScriptRunner, due_index: DueIndex, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int
) -> list[Collected]:
    """Delete up to ``limit`` succeeded and up to ``limit`` failed jobs that are older than their time to live."""
    succeeded, failed = await due_index.queues_with_finished(succeeded_ttl_ms, failed_ttl_ms)

    async def collect_kind(kind: str, queues: Iterable[str], ttl_ms: int) -> Counter[str]:
        deleted: Counter[str] = Counter()
        for queue in queues:
            try:
                deleted[queue] = await _collect_queue(scripts, queue, kind, ttl_ms, limit - deleted.total())
            except QueueNotFound:
                await due_index.rebuild(queue)
            if deleted.total() >= limit:
                break
        return +deleted

    by_queue_s = await collect_kind("s", succeeded, succeeded_ttl_ms)
    by_queue_f = await collect_kind("f", failed, failed_ttl_ms)
    return [Collected(queue, by_queue_s[queue], by_queue_f[queue]) for queue in by_queue_s.keys() | by_queue_f.keys()]


async def _collect_queue(scripts: ScriptRunner, queue: str, kind: str, ttl_ms: int, limit: int) -> int:
    deleted = 0
    page: int
    while True:
        size = min(limit - deleted, PAGE_JOBS)
        page = await scripts.run("collect_finished", queue, kind, ttl_ms, size)
        deleted += page
        if page < size or deleted >= limit:
            return deleted
