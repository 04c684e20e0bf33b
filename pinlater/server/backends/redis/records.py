"""Job records as the scripts store them; see ``scripts/parts/records.lua``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord
from pinlater.model.keys import JobKey
from pinlater.model.messages import MessageWait, Parent
from pinlater.protocol.messages import FAILED, PENDING, SUCCEEDED
from pinlater.server.backends.key_turns import job_key, stored_limit

KINDS = {PENDING: "p", SUCCEEDED: "s", FAILED: "f"}
"""State -> the letter of its sorted sets. Claimed jobs are in one set for all priorities, ordered by expiry."""

MAX_EXACT = 2**53
"""Largest number that Lua represents exactly; larger ones are sent as strings."""

_LAST_MS = 2**63 - 1


class StoredJob(NamedTuple):
    """A job as it was read.

    Attributes:
        member: its name in the sorted sets and hashes.
        local_id: its id on the shard.
        priority: its priority.
        body_bytes: size of its body.
        record: its record, without the body.
    """

    member: bytes
    local_id: int
    priority: int
    body_bytes: int
    record: JobRecord

    @property
    def rank(self) -> tuple[float, int]:
        """Its sort key in the sorted sets, where different times beyond ``MAX_EXACT`` may be equal."""
        return float(self.record.run_after_ms), self.local_id


def parse_job(head: str, member: bytes, line: bytes, texts: Sequence[bytes | None]) -> StoredJob:
    """Parse a job.

    Args:
        head: what its descriptor begins with: ``queue:s<shard>:p``.
        member: its name in the sorted sets.
        line: its record.
        texts: its custom status, unique key, shared key with limit and rate, links, and failure group; None for those
            that it does not have.
    """
    status, unique_key, key, packed, group = texts
    state, priority, allowed, remaining, created, run_after, updated, lease, size, claim = line.split(b" ", 9)
    local_id, level = int(member[1:]), int(priority)
    record = JobRecord(
        f"{head}{level}:{local_id}",
        int(state),
        int(allowed),
        int(remaining),
        (status or b"").decode(),
        int(created),
        int(run_after),
        int(updated),
        claim.decode() or None,
        None,
        None if unique_key is None else unique_key.decode(),
        None if key is None else _parse_key(key),
        failure_group=None if group is None else int(group),
        run_ms=int(lease) if int(state) == SUCCEEDED and lease[:1] == b"0" and len(lease) > 1 else None,
    )
    if packed is not None:
        record = _with_links(record, _links(packed), head)
    return StoredJob(member, local_id, level, int(size), record)


class _Links(msgspec.Struct):
    """What ties a job to others; see ``scripts/parts/links.lua``."""

    p: str | None = None
    w: Sequence[MessageWait] = ()
    c: bool = False


_links = msgspec.msgpack.Decoder(_Links).decode


def _with_links(record: JobRecord, links: _Links, head: str) -> JobRecord:
    parent = None
    if links.p is not None:
        queue, priority, local_id, position, name = links.p.split(" ", 4)
        shard, _, queue = queue.rpartition(":")
        shard = f"s{shard}" if shard else head.split(":")[1]
        parent = Parent(f"{queue}:{shard}:p{priority}:{local_id}", name, int(position))
    return record._replace(
        is_cancelled=links.c and record.state != SUCCEEDED,
        parent=parent,
        waits_for=tuple(links.w) if record.state == PENDING else (),
    )


def address_seen_from(shard: str, job: JobDescriptor) -> str:
    """Return a job's address for scripts on a shard; for a job of another shard, it begins with that one's name."""
    return address_of(job) if job.shard == shard else f"{job.shard}:{address_of(job)}"


def address_of(job: JobDescriptor) -> str:
    """Return the address of a job on its own shard, in the form that scripts take."""
    return f"{job.queue} {job.priority} {job.local_id}"


def _parse_key(stored: bytes) -> JobKey | None:
    limit, named = stored.split(b" ", 1)
    text, _, rate = named.partition(b"\0")
    return job_key(text.decode(), int(limit) if limit else None, rate.decode() or None)


def stored_key(key: JobKey) -> tuple[str, int | None, str | None]:
    """Return the text, limit and rate of a key, in the form that scripts take."""
    return key.text, stored_limit(key), key.rate


def time_argument(time_ms: int | None) -> int | str | None:
    """Return a time in the form that scripts take.

    Raises:
        OverflowError: it does not fit into 64 bits.
    """
    if time_ms is None or -MAX_EXACT <= time_ms <= MAX_EXACT:
        return time_ms
    if not -_LAST_MS - 1 <= time_ms <= _LAST_MS:
        raise OverflowError(f"time {time_ms} does not fit into 64 bits")
    return str(time_ms)


def retry_time(now_ms: int, delay_ms: int) -> int:
    """Return when a failed job is retried, in epoch milliseconds, computed like ``ack.lua`` does."""
    due = now_ms + max(delay_ms, 0)
    return due if due < MAX_EXACT else _LAST_MS
