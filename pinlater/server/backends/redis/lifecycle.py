"""The life of jobs: stored, claimed, settled, kept alive, given back."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

import msgspec

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.records import (
    JOB_OVERHEAD_BYTES,
    Ack,
    Checkpoint,
    Claim,
    ClaimedJob,
    Dequeued,
    IdempotencyKey,
    NewJob,
    Settled,
)
from pinlater.server.backends.redis.records import MOST_EXACT, due_of, time_argument
from pinlater.server.backends.redis.script_calls import ANY_QUEUE, Asker, not_found
from pinlater.server.backends.sharded import CallResult, DuePriorities
from pinlater.server.backends.token_bucket import Tokens, interval_us, most_saved_us

pack = msgspec.msgpack.Encoder().encode

_columns = msgspec.json.Decoder(list[list[int]]).decode

_NO_JOBS = ((), (), (), (), (), 0)

_body = attrgetter("body")
_priority = attrgetter("priority")

NO_IDS = pack([])
"""No jobs, as a script takes them."""

_CLAIMS_AT_ONCE = 500
"""So many claims are looked at by one script."""


def kept_as(once: IdempotencyKey | None) -> tuple[bytes, int]:
    """Return an idempotency key, and how long the result is kept, as scripts take them."""
    return (b"", 0) if once is None else (once.value, once.keep_ms)


async def enqueue(asker: Asker, queue: str, jobs: Sequence[NewJob], once: IdempotencyKey | None) -> list[str]:
    """Store jobs; sent twice only if the shard knows them again."""
    try:
        packed = pack((*zip(*map(_argument, jobs), strict=True), len(jobs)) if jobs else _NO_JOBS)
    except OverflowError as error:
        raise UnknownError(f"a job cannot be stored, so nothing was changed: {error}") from None
    is_repeatable = once is not None
    answer = await asker.ask("enqueue", queue, *kept_as(once), packed, *map(_body, jobs), is_repeatable=is_repeatable)
    return result_of(answer).names(f"{queue}:s{asker.name}:p", map(_priority, jobs))


def result_of(answer: Sequence[bytes]) -> CallResult:
    """Return what a script says of jobs that were stored, or were there by their unique keys."""
    before, *there = answer
    elsewhere = [
        (int(place), int(priority), int(member[1:])) for place, priority, member in zip(*[iter(there)] * 3, strict=True)
    ]
    return CallResult(int(before) + 1, elsewhere)


async def call_result(asker: Asker, queue: str, key: bytes) -> CallResult | None:
    """Return what the shard did of a call; None if it knows nothing of that."""
    answer = await asker.ask("result", queue, key)
    if answer is None or isinstance(answer, int):
        return None if answer is None else CallResult(answer)
    return result_of(answer)


def first_due_of(jobs: Sequence[NewJob]) -> int | None:
    """Return when the first of them falls due; None: now."""
    times = [job.run_after_ms for job in jobs]
    return None if None in times else min(times)  # type: ignore[type-var]


def _argument(job: NewJob) -> tuple[Any, ...]:
    """Return a job as the script takes it; its body goes apart, since Redis' MessagePack knows no bytes."""
    run_after = job.run_after_ms
    if run_after is None or -MOST_EXACT <= run_after <= MOST_EXACT:
        return job[1:]
    return (job.priority, time_argument(run_after), *job[3:])


async def claim(
    asker: Asker,
    queue: str,
    limit: int,
    claim_as: Claim | None,
    *,
    max_bytes: int,
    levels: int,
    want_next_due: bool = False,
    max_running: int | None = None,
) -> Dequeued:
    """Claim jobs, or only look at them when ``claim_as`` is None. Never sent twice: see ``Strays``."""
    descriptor, lease_ms, *_ = claim_as or Claim("", 0)
    has_more, is_held, next_due, columns, bodies = await asker.ask(
        "claim",
        queue,
        descriptor,
        lease_ms,
        limit,
        max_bytes,
        JOB_OVERHEAD_BYTES,
        levels,
        "1" if want_next_due else "",
        "" if claim_as else "1",
        "" if max_running is None else max_running,
        is_repeatable=claim_as is None,
    )
    head = f"{queue}:s{asker.name}:p"
    jobs = [
        ClaimedJob(f"{head}{priority}:{local_id}", body, allowed, remaining, created_at, run_after)
        for local_id, priority, allowed, remaining, created_at, run_after, body in zip(
            *_columns(columns), bodies, strict=True
        )
    ]
    return Dequeued(jobs, int(next_due) if next_due else None, bool(has_more), bool(is_held))


async def acquire_tokens(asker: Asker, queue: str, rate: float, wanted: int) -> Tokens:
    """Take tokens of a queue with a rate; below 0, give them back."""
    return Tokens(*await asker.ask("spend", queue, repr(interval_us(rate)), repr(most_saved_us(rate)), wanted))


async def due_priorities(aside: Asker, queue: str, levels: int) -> DuePriorities:
    """Return what a queue has to hand out."""
    now, due = await aside.ask("first_due", ANY_QUEUE, levels, queue)
    if due is None:
        raise not_found(queue)
    return DuePriorities.at(int(now), due_times(due, levels))


def due_times(due: Sequence[bytes], levels: int) -> list[int | None]:
    """Return times as the script ``first_due`` tells them."""
    return [int(moment) if moment else None for moment in due] or [None] * levels


async def lock_queue(asker: Asker, queue: str, milliseconds: int) -> int | None:
    """Lock a queue for a while; return the token that unlocks it, None if somebody else has locked it."""
    token = secrets.randbits(62)
    return token if await asker.ask("lock_queue", queue, milliseconds, token) else None


async def unlock_queue(asker: Asker, queue: str, token: int) -> None:
    """Unlock a queue, unless that lock has ended by itself."""
    await asker.ask("unlock_queue", queue, token)


async def settle(asker: Asker, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
    """Settle jobs; those that are not in progress, or under another claim, stay as they are.

    A failure without a claim is never sent twice: the second one would end the attempt of the next holder.
    """
    alike: defaultdict[tuple[str | None, int], list[int]] = defaultdict(list)
    apart: list[tuple[Any, ...]] = []
    for ack in succeeded:
        (_, _, priority, local_id), claim_descriptor, status, _, _ = ack
        if status:
            apart.append(_apart(ack, is_success=True))
        else:
            alike[claim_descriptor, priority].append(local_id)
    apart += (_apart(ack, is_success=False) for ack in failed)
    packed = pack(([(*key, ids) for key, ids in alike.items()], apart))
    is_repeatable = all(ack.claim is not None for ack in failed)
    now, changed, given_up = await asker.ask("ack", queue, packed, is_repeatable=is_repeatable)
    due = min((due_of(int(now), ack.retry_delay_ms) for ack in failed), default=None)
    return Settled(changed, len(succeeded) + len(failed) - changed, due, failed=given_up)


def _apart(ack: Ack, *, is_success: bool) -> tuple[Any, ...]:
    (_, _, priority, local_id), claim_descriptor, status, delay_ms, is_final = ack
    return is_success, local_id, priority, claim_descriptor, status, min(delay_ms, MOST_EXACT), is_final


async def checkpoint(asker: Asker, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
    """Apply checkpoints to the jobs that their claims, or their source, hold."""
    bodies = [item.body for item in checkpoints if item.body is not None]
    numbers = count(1)
    items = [
        (
            item.job.local_id,
            item.job.priority,
            item.claim,
            item.source,
            None if item.body is None else next(numbers),
            item.move_to_pending,
            time_argument(item.run_after_ms),
            item.attempts,
            item.status,
        )
        for item in checkpoints
    ]
    is_repeatable = all(item.is_repeatable for item in checkpoints)
    now, changed, back, lost = await asker.ask("checkpoint", queue, pack(items), *bodies, is_repeatable=is_repeatable)
    dues = (checkpoints[place].run_after_ms for place in back)
    due = min((int(now) if due is None else due for due in dues), default=None)
    return Settled(changed, len(checkpoints) - changed, due, tuple(checkpoints[place].job for place in lost))


async def release(asker: Asker, queue: str, *, by: str, which: str, spared: bytes = NO_IDS) -> int:
    """Give back all claims of a source (``by="source"``), or one claim (``by="claim"``); return how many.

    Args:
        asker: of the shard.
        queue: the name of the queue.
        by: see above.
        which: source or claim.
        spared: ``ids_of`` jobs that stay claimed.
    """
    released, cursor = 0, b"0"
    some: int
    while True:
        cursor, some = await asker.ask("release", queue, by, which, cursor, _CLAIMS_AT_ONCE, spared)
        released += some
        if cursor == b"0":
            return released


def ids_of(jobs: Iterable[JobDescriptor]) -> bytes:
    """Return the ids as a script takes them."""
    return pack([job.local_id for job in jobs])
