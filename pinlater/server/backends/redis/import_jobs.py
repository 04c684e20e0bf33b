"""Import: jobs of another store, with their history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import failure_in
from pinlater.model.jobs import JobRecord
from pinlater.protocol.messages import SUCCEEDED
from pinlater.server.backends.imported_jobs import as_imported
from pinlater.server.backends.records import Once
from pinlater.server.backends.redis.failure_groups import failures_argument
from pinlater.server.backends.redis.lifecycle import key_arguments, mark, pack, parse_result
from pinlater.server.backends.redis.records import stored_key, time_argument
from pinlater.server.backends.redis.script_calls import ScriptRunner


async def import_jobs(scripts: ScriptRunner, queue: str, jobs: Sequence[JobRecord], once: Once) -> list[str]:
    """Import jobs: nothing -> their former state; repeatable only with an idempotency key. Return their descriptors."""
    jobs = list(map(as_imported, jobs))
    priorities = [JobDescriptor.parse(job.descriptor).priority for job in jobs]
    values = [job.body or b"" for job in jobs]
    failures = [failure_in(job) for job in jobs]
    items = []
    for job, priority, failure in zip(jobs, priorities, failures, strict=True):
        has_result = job.state == SUCCEEDED and job.result is not None
        if has_result:
            values.append(job.result or b"")
        group = None if failure is None else str(failure.group)
        run_ms = job.run_ms if job.state == SUCCEEDED else None
        place = len(values) if has_result else None
        items.append((*_argument(job, priority), place, job.is_cancelled, group, run_ms))
    last = mark(is_keyed=any(job.key is not None for job in jobs))
    arguments = (*key_arguments(once), pack(items), pack(failures_argument(failures)), *values, *last)
    is_repeatable = once is not None
    result = await scripts.run("import_jobs", queue, *arguments, is_repeatable=is_repeatable)
    return parse_result(result).names(f"{queue}:s{scripts.name}:p", priorities)


def _argument(job: JobRecord, priority: int) -> tuple[Any, ...]:
    times = (time_argument(time_ms) for time_ms in (job.created_at_ms, job.run_after_ms, job.updated_at_ms))
    shared = None if job.key is None else stored_key(job.key)
    return (priority, job.state, job.attempts_allowed, job.attempts_remaining, job.status, *times, job.unique, shared)
