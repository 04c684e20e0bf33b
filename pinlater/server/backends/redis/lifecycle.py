"""The lifecycle of jobs: enqueue, claim, ack, checkpoint and release, one script each."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from pinlater.errors import UnknownError
from pinlater.model.attempts import DequeuedJob, StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import failure_in
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.model.unique import UniqueRule
from pinlater.protocol.messages import SUCCEEDED
from pinlater.server.backends.imported_jobs import as_imported
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, Claim, Dequeued, Once, Settled
from pinlater.server.backends.redis.failure_groups import failures_argument
from pinlater.server.backends.redis.records import MAX_EXACT, address_seen_from, retry_time, stored_key, time_argument
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.backends.sharded import CallResult
from pinlater.server.backends.token_bucket import Tokens, interval_us, most_saved_us

pack = msgspec.msgpack.Encoder().encode

_columns = msgspec.json.Decoder(list[list[int]]).decode

_body = attrgetter("body")
_priority = attrgetter("priority")
_alike = itemgetter(1, 2, 3)

_NO_EXTRAS = NewJob(b"")[4:]
"""The other fields of most jobs, besides body, priority, time and attempts."""

NO_IDS = pack([])
"""An empty list of ids in the form that scripts take."""

_RELEASE_PAGE = 500
"""How many claims one script reads."""


def key_arguments(once: Once) -> tuple[bytes, int]:
    """Return an idempotency key and the lifetime of its result in milliseconds, in the form that scripts take."""
    return (b"", 0) if once is None else (once.value, once.keep_ms)


async def enqueue(scripts: ScriptRunner, queue: str, jobs: Sequence[NewJob], once: Once) -> list[str]:
    """Store jobs: nothing -> PENDING; repeatable only with an idempotency key. Return their descriptors."""
    extras = {number: own for number, job in enumerate(jobs, 1) if (own := job[4:]) != _NO_EXTRAS}
    try:
        packed, last = _extras_arguments(extras, _families(jobs, scripts.name)) if extras else (b"", ())
        arguments = (*key_arguments(once), len(jobs), _runs(jobs), packed, *map(_body, jobs), *last)
    except OverflowError as error:
        raise UnknownError(f"a job cannot be stored, so nothing was changed: {error}") from None
    result = await scripts.run("enqueue", queue, *arguments, is_repeatable=once is not None)
    return parse_result(result).names(f"{queue}:s{scripts.name}:p", map(_priority, jobs))


def _runs(jobs: Sequence[NewJob]) -> str:
    """Return the runs of jobs with the same priority, time and attempts, in the form that the script takes."""
    return "".join(
        [
            f"{len(list(alike))} {priority} {'' if due_ms is None else time_argument(due_ms)} {attempts},"
            for (priority, due_ms, attempts), alike in groupby(jobs, _alike)
        ]
    )


_Extras = tuple[str, str | None, UniqueRule | None, JobKey | None, Parent | None]
_Family = tuple[int, int, str, int, str]
"""A run of jobs with the same parent: number of the first, how many, the parent's address, position of the first, and
name of the message; the positions of the others follow that of the first."""


def _extras_arguments(extras: dict[int, _Extras], families: list[_Family]) -> tuple[bytes, tuple[str, ...]]:
    """Return the packed argument with the rare fields of jobs by number and their parents; and the last argument.

    The last argument is the mark that says which of these the script has to do with.
    """
    # With a rule, a job may be replaced, and that one may have a key.
    is_keyed = any(rule is not None or key is not None for _, _, rule, key, _ in extras.values())
    stored = {
        number: (*own[:3], None if own[3] is None else stored_key(own[3]))
        for number, own in extras.items()
        if own[:4] != _NO_EXTRAS[:4]
    }
    return pack((stored or None, families)), mark(is_keyed=is_keyed, is_linked=bool(families))


def _families(jobs: Sequence[NewJob], shard: str) -> list[_Family]:
    """Return the parents of jobs in the form that the script takes; usually, all children of a call are one family."""
    found: list[_Family] = []
    for kin, family in groupby(enumerate(jobs, 1), _kin):
        if kin is not None:
            descriptor, name, distance = kin
            [(first, _), *others] = family
            address = address_seen_from(shard, JobDescriptor.parse(descriptor))
            found.append((first, 1 + len(others), address, first + distance, name))
    return found


def _kin(numbered: tuple[int, NewJob]) -> tuple[str, str, int] | None:
    """Return what the jobs of a family share: parent, name, and position minus number; None: the job has no parent."""
    number, job = numbered
    return None if job.parent is None else (job.parent.descriptor, job.parent.name, job.parent.position - number)


def mark(*, is_keyed: bool = False, is_linked: bool = False) -> tuple[str, ...]:
    """Return the last argument of a script, which says that it has to do with shared keys or links.

    The script might not find that out by itself.
    """
    words = ("keyed",) * is_keyed + ("links",) * is_linked
    return (" ".join(words),) if words else ()


def parse_result(result: Sequence[bytes]) -> CallResult:
    """Parse the result of a script that stores jobs: the new ids, and the existing jobs of duplicates."""
    before, *existing = result
    if not existing:  # the usual case
        return CallResult(int(before) + 1)
    elsewhere = [
        (int(index), int(priority), int(member[1:]))
        for index, priority, member in zip(*[iter(existing)] * 3, strict=True)
    ]
    return CallResult(int(before) + 1, elsewhere)


async def claim(
    scripts: ScriptRunner,
    queue: str,
    limit: int,
    claim_as: Claim | None,
    *,
    max_bytes: int,
    levels: int,
    want_next_due: bool = False,
    max_running: int | None = None,
) -> Dequeued:
    """Claim jobs: PENDING and due -> IN_PROGRESS; ``claim_as`` None only reads them.

    A claim is never repeated, see ``RedisOrphanedClaims``.
    """
    descriptor, lease_ms, *_ = claim_as or Claim("", 0)
    has_more, is_held, next_due, columns, bodies, let_through = await scripts.run(
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
    head = f"{queue}:s{scripts.name}:p"
    jobs = [
        DequeuedJob(f"{head}{priority}:{local_id}", body, allowed, remaining, created_at, run_after)
        for local_id, priority, allowed, remaining, created_at, run_after, body in zip(
            *_columns(columns), bodies, strict=True
        )
    ]
    due_ms = int(next_due) if next_due else None
    return Dequeued(jobs, due_ms, bool(has_more), bool(is_held), bool(let_through))


class RedisLifecycle:
    """The part of a shard that imports jobs, ends and renews claims, and has the locks and tokens that claims need."""

    _scripts: ScriptRunner
    _slow_scripts: ScriptRunner

    async def import_jobs(self, queue: str, jobs: Sequence[JobRecord], *, once: Once = None) -> list[str]:
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
            items.append((*_imported_argument(job, priority), place, job.is_cancelled, group, run_ms))
        last = mark(is_keyed=any(job.key is not None for job in jobs))
        arguments = (*key_arguments(once), pack(items), pack(failures_argument(failures)), *values, *last)
        is_repeatable = once is not None
        result = await self._slow_scripts.run("import_jobs", queue, *arguments, is_repeatable=is_repeatable)
        return parse_result(result).names(f"{queue}:s{self._slow_scripts.name}:p", priorities)

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        result = await self._scripts.run("call_result", queue, key)
        if result is None or isinstance(result, int):
            return None if result is None else CallResult(result)
        return parse_result(result)

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        bucket = repr(interval_us(rate)), repr(most_saved_us(rate))
        # Given back twice, tokens would exceed the rate.
        is_repeatable = wanted >= 0
        return Tokens(*await self._scripts.run("acquire_tokens", queue, *bucket, wanted, is_repeatable=is_repeatable))

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        token = secrets.randbits(62)
        return token if await self._scripts.run("lock_queue", queue, milliseconds, token) else None

    async def unlock_queue(self, queue: str, token: int) -> None:
        await self._scripts.run("unlock_queue", queue, token)

    async def ack_dequeued_jobs(
        self, queue: str, succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]
    ) -> Settled:
        packed, results = _pack_acks(succeeded, failed)
        last = (*results, *mark(is_linked=any(item.is_cancelled for item in failed)))
        # A second failure without a claim would end the attempt of the next holder.
        is_repeatable = all(item.claim is not None for item in failed)
        now, changed, given_up, through, *woken = await self._scripts.run(
            "ack", queue, packed, *last, is_repeatable=is_repeatable
        )
        self._scripts.tell_woken(woken)
        due = min((retry_time(int(now), item.retry_delay_ms) for item in failed if not item.is_final), default=None)
        stale = len(succeeded) + len(failed) - changed
        return Settled(changed, stale, due, failed=given_up, let_through=through)

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[StoredCheckpoint]) -> Settled:
        bodies: list[bytes] = []
        items = [
            (
                item.job.local_id,
                item.job.priority,
                item.claim,
                item.source,
                None if item.body is None else _index_of(bodies, item.body),
                item.move_to_pending,
                time_argument(item.run_after_ms),
                item.attempts,
                item.status,
                item.waits_for or None,
                [(message.name, message.id, _index_of(bodies, message.payload)) for message in item.keeps],
                item.drops,
            )
            for item in checkpoints
        ]
        last = (*bodies, *mark(is_linked=any(item.waits_for or item.keeps for item in checkpoints)))
        is_repeatable = all(item.is_repeatable for item in checkpoints)
        now, changed, moved, lost, fulfilled, asked, through, *woken = await self._scripts.run(
            "checkpoint", queue, pack(items), *last, is_repeatable=is_repeatable
        )
        self._scripts.tell_woken(woken)
        dues = (None if index in fulfilled else checkpoints[index].run_after_ms for index in moved)
        due = min((int(now) if due is None else due for due in dues), default=None)
        lost_jobs, asked_jobs = (tuple(checkpoints[index].job for index in some) for some in (lost, asked))
        return Settled(changed, len(checkpoints) - changed, due, lost_jobs, let_through=through, cancelled=asked_jobs)


def _imported_argument(job: JobRecord, priority: int) -> tuple[Any, ...]:
    times = (time_argument(time_ms) for time_ms in (job.created_at_ms, job.run_after_ms, job.updated_at_ms))
    shared = None if job.key is None else stored_key(job.key)
    return (priority, job.state, job.attempts_allowed, job.attempts_remaining, job.status, *times, job.unique, shared)


def _pack_acks(succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]) -> tuple[bytes, list[bytes]]:
    """Return acks in the form that ``ack.lua`` takes, and the results."""
    groups: defaultdict[tuple[str | None, int, bool], tuple[list[int], list[int], list[int]]] = defaultdict(
        lambda: ([], [], [])
    )
    singles: list[tuple[Any, ...]] = []
    results: list[bytes] = []
    for item in succeeded:
        (_, _, priority, local_id), claim_descriptor, status, _, _, result, *_, run_ms = item
        if result is not None:
            results.append(result)
        if status:
            singles.append((True, *_single_ack(item), None if result is None else len(results), False, None, run_ms))
        else:
            ids, indexes, times = groups[claim_descriptor, priority, result is not None]
            ids.append(local_id)
            indexes.append(len(results))
            times.append(run_ms or 0)
    singles += ((False, *_single_ack(item), None, item.is_cancelled, _group_of(item)) for item in failed)
    packed_groups = [
        (claim_descriptor, priority, ids, indexes if has_results else None, times)
        if has_results or any(times)
        else (claim_descriptor, priority, ids)
        for (claim_descriptor, priority, has_results), (ids, indexes, times) in groups.items()
    ]
    failures = [failures_argument(item.failure for item in failed)] if failed else []
    return pack((packed_groups, singles, *failures)), results


def _group_of(item: StoredAck) -> str | None:
    return None if item.failure is None else str(item.failure.group)


def _single_ack(item: StoredAck) -> tuple[Any, ...]:
    (_, _, priority, local_id), claim_descriptor, status, delay_ms, is_final, *_ = item
    return local_id, priority, claim_descriptor, status, min(delay_ms, MAX_EXACT), is_final


def _index_of(arguments: list[bytes], added: bytes) -> int:
    """Append bytes to the arguments of a script; return their index, from 1."""
    arguments.append(added)
    return len(arguments)


async def release(scripts: ScriptRunner, queue: str, *, by: str, which: str, spared: bytes = NO_IDS) -> int:
    """Release the claims of a source (``by="source"``) or one claim (``by="claim"``): IN_PROGRESS -> PENDING.

    Args:
        scripts: runs scripts on the shard.
        queue: name of the queue.
        by: see above.
        which: the source or claim.
        spared: jobs that stay claimed, as ``pack_ids`` returns them.

    Returns:
        How many jobs were released.
    """
    released, cursor = 0, b"0"
    number: int
    while True:
        cursor, number, *woken = await scripts.run("release_claims", queue, by, which, cursor, _RELEASE_PAGE, spared)
        scripts.tell_woken(woken)
        released += number
        if cursor == b"0":
            return released


def pack_ids(jobs: Iterable[JobDescriptor]) -> bytes:
    """Return the ids of jobs in the form that scripts take."""
    return pack([job.local_id for job in jobs])
