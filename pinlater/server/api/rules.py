"""Validate the arguments of calls: names, lengths, limits, defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from pinlater.errors import (
    EnqueueRejected,
    PriorityNotSupported,
    QueueNameInvalid,
    QueueNameTooLong,
    UnknownError,
)
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.model.messages import MAX_MESSAGE_NAME_CHARACTERS, Message, Parent
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange
from pinlater.model.rates import parse_rate
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion import jobs as job_conversion
from pinlater.protocol.conversion.messages import SENT
from pinlater.protocol.conversion.queues import QUEUE_CHANGE
from pinlater.protocol.conversion.values import default
from pinlater.server.api.calls import missing
from pinlater.server.backends.records import (
    IDEMPOTENCY_KEY_BYTES,
    MAX_QUEUE_NAME_CHARACTERS,
    MAX_STATUS_CHARACTERS,
    MAX_UNIQUE_KEY_CHARACTERS,
    MAX_UNIQUE_PERIOD_MS,
    WHOLE_BODY,
    IdempotencyKey,
    Once,
)

_ON_DUPLICATE = frozenset(OnDuplicate)
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)

MAX_SOURCE_CHARACTERS = 300
"""Longest source of a call; it becomes part of the claim, which is stored and sent with each job."""

_SOURCE_DIGEST_BYTES = 16

MAX_KEEP_RESULT_MS = 86_400_000
"""Longest time to keep the result of a call, whatever the call asks for."""

MAX_OTHER_QUEUES = 1000
"""Most queues of a dequeue besides its first. A call of more than 64 KiB cannot wait for jobs; this many of the longest
names take less."""


@lru_cache(maxsize=1024)
def check_queue_name(name: str) -> None:
    """Refuse an invalid queue name (wire contract §6.1); valid ones are remembered, as most calls name a few.

    Raises:
        QueueNameInvalid: it is empty or has other characters than letters, digits and underscores.
        QueueNameTooLong: it is longer than the stores allow.
    """
    if not _QUEUE_NAME.fullmatch(name):
        raise QueueNameInvalid(f"Invalid queue name: {name[:200]} (allowed: letters, digits and underscore)")
    if len(name) > (most := MAX_QUEUE_NAME_CHARACTERS):
        raise QueueNameTooLong(f"queue name {name[:100]} has {len(name)} characters; at most {most}")


def queues_of(first: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return the queues of a dequeue, without duplicates.

    Raises:
        QueueNameInvalid, QueueNameTooLong: a name is invalid.
        UnknownError: there are too many.
    """
    if len(others) > MAX_OTHER_QUEUES:
        raise UnknownError(f"a dequeue names {len(others)} other queues; at most {MAX_OTHER_QUEUES} are allowed")
    queues = dict.fromkeys((first, *others))
    for name in queues:
        check_queue_name(name)
    return tuple(queues)


def bounded_source(source: str) -> str:
    """Return a source, the end of a long one as a digest: the original took any length, and sources stay distinct."""
    if len(source) <= MAX_SOURCE_CHARACTERS:
        return source
    digest = blake2b(source.encode("utf-8", "replace"), digest_size=_SOURCE_DIGEST_BYTES).hexdigest()
    return f"{source[: MAX_SOURCE_CHARACTERS - len(digest)]}{digest}"


def idempotency_key(context: wire.RequestContext, keep_seconds: float) -> Once:
    """Return the idempotency key of a call; None if it has none.

    Args:
        context: the context of the call.
        keep_seconds: how long to keep its result, unless the call specifies it.
    """
    value = context.idempotencyKey
    if value is None:
        return None
    if len(value) != IDEMPOTENCY_KEY_BYTES:
        raise UnknownError(f"an idempotency key has {IDEMPOTENCY_KEY_BYTES} bytes, such as a UUID's, not {len(value)}")
    keep_ms = context.keepResultMillis
    if keep_ms is None or keep_ms <= 0:
        keep_ms = int(keep_seconds * 1000)
    return IdempotencyKey(value, min(keep_ms, MAX_KEEP_RESULT_MS), bool(context.isRepeat))


def check_priority(priority: int | None, levels: int) -> None:
    """Refuse a priority outside the levels; None is allowed.

    Raises:
        PriorityNotSupported: it is outside.
    """
    if priority is not None and not 1 <= priority <= levels:
        raise PriorityNotSupported(f"priority {priority} is not supported; use 1 (served first) to {levels}")


def check_state(state: int) -> None:
    """Refuse an unknown job state."""
    if state not in wire.STATE_NAMES:
        raise UnknownError(f"there is no job state {state}; use 0 (pending) to 3 (failed)")


def wait_seconds(asked_ms: int | None, max_wait_ms: int) -> float:
    """Return how many seconds a call may wait if it asks for ``asked_ms``; None: it does not ask."""
    return min(max(asked_ms or 0, 0), max_wait_ms) / 1000


def body_bytes(asked: int | None) -> int:
    """Return how many bytes of each body a look-up returns; refuse to cut bodies to less than one byte."""
    if asked is not None and asked < 1:
        raise UnknownError(f"bodies cut to {asked} bytes: use 1 or more, or leave includeBody out for none")
    return asked or WHOLE_BODY


def check_time(time_ms: int) -> None:
    """Refuse a time that no job can be due at."""
    if time_ms != due_time(time_ms):
        raise UnknownError(f"no job can be due at {time_ms}: use epoch milliseconds from 0 to {WAITS_FOR_KEY_MS - 1}")


def due_time(time_ms: int) -> int:
    """Return the nearest time that a job can be due at; at others, stores could not tell whether it waits for its key.

    The original takes all times, such as the largest for "never".
    """
    return min(max(time_ms, 0), WAITS_FOR_KEY_MS - 1)


def check_limit(limit: int) -> None:
    """Refuse a negative limit."""
    if limit < 0:
        raise UnknownError(f"limit {limit} is negative; use 0 or more")


def status_text(text: str | None) -> str:
    """Return a custom status as stored: cut, and without NUL, which ends a text in some stores."""
    if not text:
        return ""
    return text[:MAX_STATUS_CHARACTERS].replace("\0", "\N{REPLACEMENT CHARACTER}")


class JobRules(NamedTuple):
    """The rules for jobs that are enqueued or imported.

    Attributes:
        levels: number of priorities, which are 1 to this.
        max_body_bytes: longest body.
    """

    levels: int
    max_body_bytes: int

    def new_jobs(self, structs: Sequence[wire.PinLaterJob]) -> list[NewJob]:
        """Convert and validate the jobs of an enqueue.

        Raises:
            CallRefused, EnqueueRejected, PriorityNotSupported: a job is invalid, so none is stored.
        """
        levels, max_body_bytes = self
        jobs = job_conversion.new_jobs(structs)
        known_parent: tuple[str, str] | None = None
        for position, (body, priority, due_ms, _, status, unique, rule, key, parent) in enumerate(jobs):
            if body is None:
                raise missing(f"request.jobs[{position}].body")
            if len(body) > max_body_bytes:
                raise too_large(f"the body of job {position}", body, max_body_bytes)
            if not 1 <= priority <= levels:
                check_priority(priority, levels)
            if due_ms is not None and (kept_ms := due_time(due_ms)) != due_ms:
                jobs[position] = jobs[position]._replace(run_after_ms=kept_ms)
            if status and (kept := status_text(status)) != status:
                jobs[position] = jobs[position]._replace(status=kept)
            if unique is not None:
                _check_key_text(unique, f"the unique key of job {position}")
                if rule is not None:
                    _check_unique_rule(rule, f"job {position}")
            if key is not None:
                _check_key(key, f"job {position}")
            if parent is not None and (parent[:2] != known_parent or parent.position < 0 or unique is not None):
                _check_parent(parent, f"job {position}", unique)
                known_parent = parent[:2]
        return jobs

    def imported_jobs(self, structs: Sequence[wire.PinLaterJobInfo]) -> list[JobRecord]:
        """Convert and validate the jobs of an import.

        Raises:
            CallRefused, EnqueueRejected, PriorityNotSupported, UnknownError: a job is invalid, so none is stored.
        """
        return list(map(self._imported_job, structs))

    def _imported_job(self, job: wire.PinLaterJobInfo) -> JobRecord:
        descriptor, body = job.jobDescriptor or "", job.body
        check_priority(JobDescriptor.parse(descriptor).priority, self.levels)
        check_state(default(job.jobState, -1))
        if body is None:
            raise missing(f"body of {descriptor}")
        if len(body) > self.max_body_bytes:
            raise too_large(f"the body of {descriptor}", body, self.max_body_bytes)
        if job.uniqueKey is not None:
            _check_key_text(job.uniqueKey, f"the unique key of {descriptor}")
        record = job_conversion.imported_job(job, status_text(job.customStatus))
        if record.key is not None:
            _check_key(record.key, descriptor)
        return record._replace(run_after_ms=due_time(record.run_after_ms))


def _check_key(key: JobKey, whose: str) -> None:
    _check_key_text(key.text, f"the key of {whose}")
    if key.max_running is not None and key.max_running < 1:
        raise EnqueueRejected(f"of the key of {whose}, {key.max_running} jobs may run at once; use 1 or more")
    if key.is_ordered and key.max_running != 1:
        raise EnqueueRejected(f"the jobs of the key of {whose} run in order, so one at a time; leave out its limit")
    if key.rate is not None:
        try:
            parse_rate(key.rate)
        except ValueError as error:
            raise EnqueueRejected(f"of the key of {whose}, {error}") from None


def _check_parent(parent: Parent, whose: str, unique: str | None) -> None:
    JobDescriptor.parse(parent.descriptor)
    check_message_text(parent.name, f"the message of {whose} to its parent")
    if parent.position < 0:
        raise EnqueueRejected(f"the position of {whose} among those of its parent is {parent.position}; count from 0")
    if unique is not None:  # the job that has the key might stand in for it, without a parent
        raise EnqueueRejected(
            f"{whose} has a parent and a unique key; leave out the key, or enqueue the job without a parent and let it "
            "answer by an event, for which the other job waits"
        )


def _check_key_text(key: str, what: str) -> None:
    if not 1 <= len(key) <= MAX_UNIQUE_KEY_CHARACTERS:
        raise EnqueueRejected(
            f"{what} has {len(key)} characters; it must have 1 to {MAX_UNIQUE_KEY_CHARACTERS}, "
            "so use a hash of a longer key"
        )
    if "\0" in key:  # ends a text in some stores
        raise EnqueueRejected(f"{what} contains a NUL character; remove it")


def _check_unique_rule(rule: UniqueRule, whose: str) -> None:
    for what, time_ms in (("taken", rule.period_ms), ("delayed", rule.max_delay_ms or 0)):
        if not 0 <= time_ms <= MAX_UNIQUE_PERIOD_MS:
            raise EnqueueRejected(f"the unique key of {whose} would be {what} for {time_ms} ms; use 0 to 366 days")
    if rule.on_duplicate not in _ON_DUPLICATE:
        raise EnqueueRejected(
            f"onDuplicate of {whose} is {rule.on_duplicate}; use 0 to keep, 1 to replace, 2 to debounce"
        )


def check_message_text(text: str, what: str) -> None:
    """Refuse the name or id of a message that no store could index.

    Raises:
        EnqueueRejected: it is empty, too long, or has a NUL.
    """
    if not 1 <= len(text) <= MAX_MESSAGE_NAME_CHARACTERS or "\0" in text:
        raise EnqueueRejected(
            f"{what} has {len(text)} characters; it must have 1 to {MAX_MESSAGE_NAME_CHARACTERS}, and no NUL"
        )


def message(request: wire.PinLaterSendMessageRequest, max_bytes: int) -> Message:
    """Convert and validate a message.

    Raises:
        EnqueueRejected: its name or id cannot be stored, or it is too large.
    """
    found = SENT.record(request)
    check_message_text(found.name, "the name of the message")
    check_message_text(found.id, "the id of the message")
    if len(found.payload) > max_bytes:
        raise too_large("the message", found.payload, max_bytes)
    return found


def queue_change(request: wire.PinLaterChangeQueueSettingsRequest) -> QueueChange:
    """Convert and validate a change of queue settings.

    Raises:
        UnknownError: a limit or a number of shards is negative or not a number.
    """
    change = QUEUE_CHANGE.record(request)
    _, rate, most, shards, _ = change
    if rate is not None and not 0 <= rate < math.inf:
        raise UnknownError(f"{rate} is not a rate limit; use jobs per second above 0, or 0 for no limit")
    if most is not None and most < 0:
        raise UnknownError(f"{most} is not a limit of running jobs; use a number above 0, or 0 for no limit")
    if shards is not None and shards < FOLLOWS_LOAD:
        raise UnknownError(f"{shards} is not a number of shards; use 1 or more, 0 for all, or {FOLLOWS_LOAD} for auto")
    return change if shards is None else change._replace(shards_by_load=0)  # it is computed anew


def too_large(what: str, body: bytes, limit: int) -> EnqueueRejected:
    """Return the error for a body, result or message that is larger than the server allows."""
    return EnqueueRejected(
        f"{what} has {len(body)} bytes, more than the {limit} that this server allows (MAX_BODY_BYTES); "
        "store the data elsewhere, and put its address into the job"
    )


def jobs_of(queue: str, descriptors: Sequence[str]) -> list[JobDescriptor]:
    """Parse the descriptors of a call about one queue.

    Raises:
        UnknownError: a descriptor is invalid or of another queue.
    """
    jobs = [JobDescriptor.parse(descriptor) for descriptor in descriptors]
    for job in jobs:
        if job.queue != queue:
            raise UnknownError(f"job {job} does not belong to queue {queue} of the call")
    return jobs
