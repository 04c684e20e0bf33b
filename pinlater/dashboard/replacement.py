"""Replacement of a job by an edited one: the new job is stored first, then the old one is deleted."""

from __future__ import annotations

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.moving import HOLD_SECONDS
from pinlater.client.store_time import now_ms_of
from pinlater.dashboard.body_form import own_fields
from pinlater.errors import PinLaterError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.unique import OnDuplicate, UniqueRule

_KEY = "replaces {}"
_TAKEOVER = UniqueRule(until_started=True, on_duplicate=OnDuplicate.REPLACE)
"""Replaces the job that has the key, or takes the key over if that job was ever claimed."""


def why_not(info: JobInfo, priority: int | None = None) -> str:
    """Return why a job cannot be replaced by one of this priority (None: the same priority); empty if it can."""
    own = JobDescriptor.parse(info.descriptor).priority
    if info.unique is not None and info.state is JobState.PENDING and priority not in {None, own}:
        return "a job with a unique key keeps its priority as long as it waits"
    if info.state is JobState.IN_PROGRESS:
        return "the job is running; wait until it has ended, or cancel it"
    if info.parent is not None and not info.state.is_final:
        return "another job waits for the end of this one, and would take its deletion for a failure"
    if info.waits_for:
        return "the job has begun and waits for events or other jobs, which a new job would not get"
    if info.key is not None and info.key.is_ordered and info.state is JobState.PENDING:
        return "the jobs of its key run in order, and a new job would be the last of them"
    return ""


async def replace_job(client: AsyncVerbs, old: JobInfo, new: NewJob) -> str | None:
    """Store ``new`` and delete ``old``; return the new descriptor, or None if the old job could not be replaced.

    Until the old job is gone, for at most ``HOLD_SECONDS``, the new one is not due. If a worker has claimed the old one
    meanwhile, the new one is deleted. If at most the time of a pending job changes, the job stays, and is made due at
    the new time.

    A pending job with a unique key is held back as well, so that no worker claims it meanwhile. If it was never
    claimed, the store gives it the new content in one step. Otherwise the new job takes over its key; that is not
    possible as long as the key is taken for a period.

    All of this may be repeated: the unique key of the new job either names the old one or is the same as the old one's.
    Only a takeover that was interrupted before it deleted the old job stores one more when it is repeated.

    Raises:
        PinLaterError: the server refused the new job, and nothing was changed; or it no longer answers, and both jobs
            may exist.
    """
    queue = JobDescriptor.parse(old.descriptor).queue
    if old.state is JobState.PENDING and new.run_after_ms is not None and _has_same_work(old, new):
        if new.run_after_ms == old.run_after_ms:  # the server would not count that as a change
            return old.descriptor
        is_changed = await client.schedule(queue, [old.descriptor], new.run_after_ms)
        return old.descriptor if is_changed else None
    now_ms = await now_ms_of(client)
    hold_ms = now_ms + int(HOLD_SECONDS * 1000)
    due_ms = new.run_after_ms or 0
    held = new._replace(unique=_KEY.format(old.descriptor), run_after_ms=max(due_ms, hold_ms))
    if old.unique is not None and old.state is JobState.PENDING:
        held = held._replace(unique=old.unique, unique_rule=_TAKEOVER)
        name = await _store_keyed(client, queue, old, held, hold_ms)
    else:
        [name] = await client.enqueue_jobs(queue, [held])
    if name is None or (name != old.descriptor and not await _delete_old(client, queue, old, name)):
        return None
    if due_ms <= now_ms:
        await client.run_now(queue, [name])
    else:
        await client.schedule(queue, [name], due_ms)
    return name


def _has_same_work(old: JobInfo, new: NewJob) -> bool:
    """Tell whether a new job differs from the old one at most in its time."""
    was, will = own_fields(old.body), own_fields(new.body)
    is_same = old.body == new.body if was is None or will is None else was[:2] == will[:2]
    described = JobDescriptor.parse(old.descriptor)
    return is_same and (described.priority, max(old.attempts_remaining, 1)) == (new.priority, new.attempts)


async def _store_keyed(client: AsyncVerbs, queue: str, old: JobInfo, new: NewJob, hold_ms: int) -> str | None:
    """Store a job under the key of a pending one; return its descriptor, or that of the old job if it was replaced.

    Return None, and change nothing, if a worker has claimed the old job or its key stays taken.
    """
    was_due_ms = old.run_after_ms or 0
    if was_due_ms < hold_ms and not await client.schedule(queue, [old.descriptor], hold_ms):
        return None
    try:
        [name] = await client.enqueue_jobs(queue, [new])
    except PinLaterError:
        await client.schedule(queue, [old.descriptor], was_due_ms)
        raise
    if name == old.descriptor:
        stored = (await client.lookup([name], include_body=True)).get(name)
        content = None if stored is None else (stored.body, stored.attempts_allowed, stored.attempts_remaining)
        if content != (new.body, new.attempts, new.attempts):
            await client.schedule(queue, [name], was_due_ms)
            return None
    return name


async def _delete_old(client: AsyncVerbs, queue: str, old: JobInfo, name: str) -> bool:
    """Delete the old job; if it has left its state or the server refuses, delete the new one instead."""
    try:
        deleted = await client.delete_these(queue, [old.descriptor], old.state)
    except PinLaterError:
        await client.delete_these(queue, [name], JobState.PENDING)
        raise
    if not deleted and old.descriptor in await client.lookup([old.descriptor]):
        await client.delete_these(queue, [name], JobState.PENDING)
        return False
    return True
