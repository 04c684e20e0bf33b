"""What happens to jobs without a worker: retries and deletions by hand, expiry, collection; by chunks.

Each chunk is atomic, and so is each job; several servers may do the same at once, and nothing is done twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.batches import change_in_steps
from pinlater.server.backends.records import Collected, Expired, IdempotencyKey
from pinlater.server.backends.redis.due_index import Earliest
from pinlater.server.backends.redis.lifecycle import kept_as, pack
from pinlater.server.backends.redis.reads import AT_ONCE, Search, pages
from pinlater.server.backends.redis.script_calls import Asker


class Retry(NamedTuple):
    """FAILED -> PENDING, up to ``limit`` jobs of one priority."""

    priority: int
    attempts: int
    run_after_ms: int | None
    limit: int
    once: IdempotencyKey | None = None


class Respite(NamedTuple):
    """Which expired claims are spared.

    Attributes:
        asked_at: those that expired later, since the server may have stood still then; as ``Asker.now`` told it.
        age_ms: of the server: while it is younger than ``quiet_ms``, those whose lease is longer than its age.
        quiet_ms: see there.
    """

    asked_at: int | str
    age_ms: int
    quiet_ms: int


async def retry(asker: Asker, queue: str, which: Retry) -> int:
    """Make failed jobs pending, the oldest first; return how many.

    A chunk is sent twice only if the shard knows it again, lest too many move.
    """
    run_after = "" if which.run_after_ms is None else which.run_after_ms
    kept, is_repeatable = (*kept_as(which.once), which.limit), which.once is not None
    moved = 0
    some: int
    while True:
        asked = max(min(which.limit - moved, AT_ONCE), 0)
        of_jobs = (which.priority, which.attempts, run_after, asked)
        some, in_all = await asker.ask("retry", queue, *kept, *of_jobs, is_repeatable=is_repeatable)
        moved = in_all if which.once else moved + some
        if some < asked or moved >= which.limit:
            return moved


async def retry_these(
    asker: Asker,
    queue: str,
    jobs: Sequence[JobDescriptor],
    attempts: int,
    run_after_ms: int | None,
    *,
    once: IdempotencyKey | None,
) -> int:
    """Make those of the jobs that are failed pending; return how many."""
    packed = pack([(job.priority, job.local_id) for job in jobs])
    of_jobs = (attempts, "" if run_after_ms is None else run_after_ms, packed)
    is_repeatable = once is not None
    moved: int = await asker.ask("retry_these", queue, *kept_as(once), *of_jobs, is_repeatable=is_repeatable)
    return moved


async def run_now(asker: Asker, queue: str, jobs: Sequence[JobDescriptor], once: IdempotencyKey | None) -> int:
    """Make those of the jobs due now that are pending and not due; return how many."""
    packed = pack([(job.priority, job.local_id) for job in jobs])
    moved: int = await asker.ask("run_now", queue, *kept_as(once), packed, is_repeatable=once is not None)
    return moved


async def delete_these(
    asker: Asker, queue: str, jobs: Sequence[JobDescriptor], state: int, once: IdempotencyKey | None
) -> int:
    """Delete those of the jobs that are in a state; return how many."""
    by_priority: defaultdict[int, list[int]] = defaultdict(list)
    for job in jobs:
        by_priority[job.priority].append(job.local_id)
    deleted = 0
    for priority, ids in by_priority.items() or [(1, [])]:  # without jobs, a missing queue is noticed all the same
        # Each priority is a call of its own to the shard.
        part = once and once._replace(value=once.value + b":p%d" % priority)
        _, gone = await _delete_some(asker, queue, _Doomed(state, priority, ids), part)
        deleted += gone
    return deleted


class _Doomed(NamedTuple):
    """Jobs to be deleted, as far as they are still in that state."""

    state: int
    priority: int
    ids: Sequence[int]


async def delete(asker: Asker, search: Search, limit: int, once: IdempotencyKey | None) -> int:
    """Delete jobs that match, as long as they are still in that state; return how many."""

    async def delete_some(doomed: _Doomed, so_far: int) -> int:
        most = limit if once else limit - so_far
        gone, in_all = await _delete_some(asker, search.queue, doomed, once, most)
        return in_all if once else so_far + gone

    nothing = _Doomed(search.which.state, search.priorities[0], ())
    return await change_in_steps(
        _found(asker, search, limit), delete_some, limit, nothing=nothing, pattern=search.pattern
    )


async def _found(asker: Asker, search: Search, limit: int) -> AsyncIterator[_Doomed]:
    """Yield jobs that match, some at a time."""
    for priority in search.priorities if limit else ():
        async for some in pages(asker, search, priority, limit):
            if some:
                yield _Doomed(search.which.state, priority, [one.local_id for one in some])


async def _delete_some(
    asker: Asker, queue: str, doomed: _Doomed, once: IdempotencyKey | None, most: int | None = None
) -> tuple[int, int]:
    """Return how many were deleted, now and by all calls with this key; without a limit, the first one does it all."""
    kept = (*kept_as(once), "" if most is None else most)
    of_jobs = (doomed.state, doomed.priority, pack(doomed.ids))
    gone, in_all = await asker.ask("delete", queue, *kept, *of_jobs, is_repeatable=once is not None)
    return gone, in_all


async def reap(asker: Asker, earliest: Earliest, limit: int, respite: Respite) -> list[Expired]:
    """End up to ``limit`` expired claims."""
    result = []
    for queue in await earliest.with_expired():
        try:
            expired = await _reap_queue(asker, queue, limit, respite)
        except QueueNotFound:
            await earliest.correct(queue)
            continue
        limit -= expired.retried + expired.failed
        if expired.retried or expired.failed:
            result.append(expired)
        if limit <= 0:
            break
    return result


async def _reap_queue(asker: Asker, queue: str, limit: int, respite: Respite) -> Expired:
    retried = failed = passed = 0
    while True:
        asked = min(limit - retried - failed, AT_ONCE)
        seen, spared, again, over = await asker.ask(
            "reap", queue, asked, passed, respite.age_ms, respite.quiet_ms, at=respite.asked_at
        )
        retried, failed, passed = retried + again, failed + over, passed + spared
        if seen < asked or retried + failed >= limit:
            return Expired(queue, retried, failed)


async def collect(
    asker: Asker, earliest: Earliest, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int
) -> list[Collected]:
    """Remove up to ``limit`` succeeded and as many failed jobs that finished longer ago."""
    succeeded, failed = await earliest.with_finished(succeeded_ttl_ms, failed_ttl_ms)

    async def collect_kind(kind: str, queues: Iterable[str], ttl_ms: int) -> Counter[str]:
        gone: Counter[str] = Counter()
        for queue in queues:
            try:
                gone[queue] = await _collect_kind(asker, queue, kind, ttl_ms, limit - gone.total())
            except QueueNotFound:
                await earliest.correct(queue)
            if gone.total() >= limit:
                break
        return +gone

    gone_s = await collect_kind("s", succeeded, succeeded_ttl_ms)
    gone_f = await collect_kind("f", failed, failed_ttl_ms)
    return [Collected(queue, gone_s[queue], gone_f[queue]) for queue in gone_s.keys() | gone_f.keys()]


async def _collect_kind(asker: Asker, queue: str, kind: str, ttl_ms: int, limit: int) -> int:
    gone = 0
    some: int
    while True:
        asked = min(limit - gone, AT_ONCE)
        some = await asker.ask("collect", queue, kind, ttl_ms, asked)
        gone += some
        if some < asked or gone >= limit:
            return gone
