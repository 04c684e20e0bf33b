"""Import: jobs of another store, with their past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.records import IdempotencyKey, JobRecord
from pinlater.server.backends.redis.lifecycle import kept_as, pack, result_of
from pinlater.server.backends.redis.records import time_argument
from pinlater.server.backends.redis.script_calls import Asker


async def import_jobs(asker: Asker, queue: str, jobs: Sequence[JobRecord], once: IdempotencyKey | None) -> list[str]:
    """Store jobs in the states that they had; sent twice only if the shard knows them again."""
    priorities = [JobDescriptor.parse(job.descriptor).priority for job in jobs]
    packed = pack([_argument(job, priority) for job, priority in zip(jobs, priorities, strict=True)])
    bodies = [job.body or b"" for job in jobs]
    is_repeatable = once is not None
    answer = await asker.ask("import", queue, *kept_as(once), packed, *bodies, is_repeatable=is_repeatable)
    return result_of(answer).names(f"{queue}:s{asker.name}:p", priorities)


def _argument(job: JobRecord, priority: int) -> tuple[Any, ...]:
    state = PENDING if job.state == IN_PROGRESS else job.state
    times = (time_argument(moment) for moment in (job.created_at_ms, job.run_after_ms, job.updated_at_ms))
    key = job.unique_key if state == PENDING else None
    return (priority, state, job.attempts_allowed, job.attempts_remaining, job.status, *times, key)
