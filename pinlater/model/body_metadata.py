"""PinLater's own metadata in a job's body: fields whose names begin with ``$``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.model.body_fields import DECODE_ERRORS, read_fields
from pinlater.model.kept_mark import with_mark
from pinlater.model.messages import MAX_DROPPED
from pinlater.model.policy import POLICY_FIELD, Policy
from pinlater.model.progress import Progress
from pinlater.model.wait_records import CallRecord, EventRecord

_PREFIX = "$"
_UNDOES = f"{_PREFIX}undoes"
_NAMES = {"recurrence": "again", "run_id": "run"}
"""Fields of the metadata that have other names in bodies. Bodies are stored: a field that is renamed needs a row."""

METADATA_BYTE = ord(_PREFIX)
"""A body without this byte has no metadata; searching for one byte costs next to nothing."""


class LastRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the last run of a periodic job went.

    Attributes:
        due_ms: epoch milliseconds for which it was scheduled.
        started_ms: when its last attempt started, in epoch milliseconds.
        ended_ms: when it ended, in epoch milliseconds.
        result: ``succeeded``, ``failed`` (with all its attempts) or ``discarded``.
        attempts: number of attempts that it took.
    """

    due_ms: int
    started_ms: int
    ended_ms: int
    result: str
    attempts: int = 1

    @property
    def run_ms(self) -> int:
        """Milliseconds that the last attempt ran."""
        return max(self.ended_ms - self.started_ms, 0)


class Recurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Position of a rescheduled or periodic job in its series of runs; see ``JobContext.reschedule``.

    Attributes:
        due_ms: epoch milliseconds for which the current run is scheduled.
        run: number of earlier runs.
        schedule: text of a periodic job's schedule; empty for other jobs.
        failures: number of a periodic job's latest runs that have failed in a row.
        last: how the last run of a periodic job went; None before the first, and after a run on a
            worker of a version that did not record it.
        has_begun: whether an attempt of a periodic job's current run was interrupted, or has saved something.
    """

    due_ms: int
    run: int = 0
    schedule: str = ""
    failures: int = 0
    last: LastRun | None = None
    has_begun: bool = False


_MOST_WHY = 500
"""Characters that are kept of the reason why a job gave up."""
UNDO_ATTEMPTS = 5
"""Minimum number of attempts to undo, even if the class allows fewer attempts."""
PERIODIC_SPARE_ATTEMPTS = 16
"""Attempts that the server is given on top of those of a periodic job's run. So if its process or machine dies in the
last attempt, the job stays pending, and the next worker can move it to the next tick."""


def call_name(run: int, use: str) -> str:
    """Return the name of the messages by which the jobs of a call report that they have ended."""
    return f"call/{run}/{use}"


class SagaMark(msgspec.Struct, omit_defaults=True):
    """What has to be undone if the job gives up.

    With the first step, the server is given spare attempts, so that a job whose process dies in its last attempt does
    not become FAILED before its sagas are undone. From then on, its attempts are counted from the numbers here.

    Attributes:
        steps: names of finished steps, in the order in which they finished.
        why: why the job gave up; empty if it has not.
        allowed: attempts of the job, without spare ones.
        attempt: number of the attempt that got the spare ones.
        given: attempts that the server allows since then, including that one; 0: no spare ones.
        is_cancelled: whether the job gave up because it was cancelled.
        undoes: the same, under a name that stores find in the body; see ``UNDOES_CANCELLED``.
        passed: names of steps that had failed when one of ``steps`` finished: the job went on without them.
    """

    steps: list[str] = []
    why: str = ""
    allowed: int = 0
    attempt: int = 0
    given: int = 0
    is_cancelled: bool = False
    undoes: bool = msgspec.field(name=_UNDOES, default=False)
    passed: list[str] = []

    def give_up(self, why: str, *, is_cancelled: bool = False) -> None:
        """Record why the job gave up, unless it had before; its attempts are counted anew."""
        self.why, self.given = self.why or why[:_MOST_WHY], 0
        self.is_cancelled = self.undoes = self.is_cancelled or is_cancelled


class MismatchMark(msgspec.Struct, frozen=True):
    """Mark on a job that is blocked: by code that does not fit its steps, or as ``worker.running.blocked`` lists.

    Attributes:
        step: what blocks it: key of the step or call that does not fit; for a missing queue, ``queue`` and its name.
        since_ms: since when, epoch milliseconds.
    """

    step: str
    since_ms: int


MOST_TIMES = 100
"""Number of steps of a run whose times are stored."""

PERIODIC_KEY_PATTERN = r"\S+ (?:every|cron) "
"""Pattern of the beginning of a periodic job's unique key: class name, and kind of the schedule."""

_PERIODIC_KEY = re.compile(r"\S+ (?:every \d+(?:\.\d+)?|cron(?: \S+){6,7})")
"""Pattern of a whole key, with the text of its schedule, which nobody else writes by chance."""


def periodic_key(name: str, schedule: str) -> str:
    """Return the unique key of a periodic job; it lets one job exist for each class and schedule."""
    return f"{name} {schedule}"


def is_periodic_key(unique: str | None) -> bool:
    """Return whether a unique key is that of a periodic job; its body is not needed for that."""
    return unique is not None and _PERIODIC_KEY.fullmatch(unique) is not None


class BodyMetadata(msgspec.Struct, omit_defaults=True, rename=lambda field: f"{_PREFIX}{_NAMES.get(field, field)}"):
    """Metadata in a job's body, under names that no field of a job class can have.

    Attributes:
        steps: name of a finished step -> its result, as JSON values.
        progress: the latest progress report.
        sleeps: name of a sleep -> epoch milliseconds at which it ends.
        policy: attempt and time limits of this job, in place of its class's.
        tries: name of a failed step -> the job's attempt number, and the step's failures within that attempt.
        enqueued: name of a follow-up job -> its descriptor.
        recurrence: position in a series of runs, if the job was rescheduled or is periodic.
        trace: trace context of the enqueue; not validated, because no job may fail for it.
        previous: trace context of the previous run; not validated either.
        fingerprints: name of a step, without the number of a use -> the fingerprints of its calls; see
            ``pinlater.jobs.fingerprints``.
        untyped: names of finished steps whose result did not fit the return annotation of their function.
        mismatch: what blocked the job when it last ran; None: nothing.
        run_id: id of this run, from which its idempotency keys are derived; empty if the run has asked for none.
        patches: name of a patch -> whether this run follows it.
        saga: what has to be undone if the job gives up.
        calls: name of a call -> record of the jobs that were called.
        events: name of an event -> record of those that the job has got.
        published: fields that the job has published.
        times: name of a finished step -> epoch milliseconds of its start, milliseconds that it took, and the job's
            attempt number; of the first ``MOST_TIMES`` steps.
        kept: number of finished steps whose results are stored beside the body; ``steps``, ``fingerprints`` and
            ``untyped`` are about the others.
        prints: name of a finished step -> the fingerprint of its call; used instead of ``fingerprints`` if the results
            of other steps are stored beside the body.
        unneeded: name of messages that only earlier runs needed -> how many of them may still be stored.
    """

    steps: dict[str, Any] = {}
    progress: Progress | None = None
    sleeps: dict[str, int] = {}
    policy: Policy | None = None
    tries: dict[str, tuple[int, int]] = {}
    enqueued: dict[str, str] = {}
    recurrence: Recurrence | None = None
    trace: Any = None
    previous: Any = None
    fingerprints: dict[str, str] = {}
    untyped: list[str] = []
    mismatch: MismatchMark | None = None
    run_id: str = ""
    patches: dict[str, bool] = {}
    saga: SagaMark | None = None
    calls: dict[str, CallRecord] = {}
    events: dict[str, EventRecord] = {}
    published: dict[str, Any] = {}
    times: dict[str, tuple[int, int, int]] = {}
    kept: int = 0
    prints: dict[str, str] = {}
    unneeded: dict[str, int] = {}

    @property
    def run(self) -> int:
        """Number of runs before this one."""
        return 0 if self.recurrence is None else self.recurrence.run

    def accept_record(self, key: str) -> None:
        """Record that what is known under ``key`` blocks the job no longer: the code fits, or the queue exists."""
        if self.mismatch is not None and self.mismatch.step == key:
            self.mismatch = None

    def for_next_run(
        self,
        due_ms: int,
        trace: Mapping[str, str] | None = None,
        *,
        is_failure: bool = False,
        ended: LastRun | None = None,
    ) -> BodyMetadata:
        """Return the metadata of the next run: the policy and the recurrence, without this run's steps.

        Args:
            due_ms: epoch milliseconds for which the next run is scheduled.
            trace: trace context of this run.
            is_failure: whether this run has failed with all its attempts.
            ended: how this run went, if the job is periodic.
        """
        last = self.recurrence or Recurrence(due_ms)
        failures = last.failures + 1 if is_failure else 0
        following = Recurrence(due_ms, self.run + 1, last.schedule, failures, ended)
        return BodyMetadata(
            policy=self.policy,
            recurrence=following,
            previous=trace,
            events=self._events_of_next_run(),
            unneeded={name: left - MAX_DROPPED for name, left in self.droppable().items() if left > MAX_DROPPED},
        )

    def droppable(self) -> dict[str, int]:
        """Return the names of messages from called jobs that the next run does not need, and how many there may be."""
        return self.unneeded | {
            call_name(self.run, use) + "/again" * times: count
            for use, record in self.calls.items()
            for times, count in enumerate(record.counts())
        }

    def _events_of_next_run(self) -> dict[str, EventRecord]:
        """Return how many events of each name the job has got; the next run gets those after them."""
        got = {name: record.before + record.here for name, record in self.events.items()}
        return {name: EventRecord(number) for name, number in got.items() if number}


class UnreadableMark(msgspec.Struct, frozen=True):
    """Mark on a job that a worker gave back because none of its job classes can read the body.

    Attributes:
        since_ms: epoch milliseconds of the first time.
        until_ms: epoch milliseconds at which the job is due again; if it became due at another time, the mark is out of
            date.
        reasons: checksums of the reasons that the status of the job has; none if a worker of 0.1 wrote the mark.
    """

    since_ms: int
    until_ms: int
    reasons: tuple[int, ...] = ()


_UNREADABLE_FIELD = f"{_PREFIX}unread"


class _MarkOnly(msgspec.Struct):
    mark: UnreadableMark | None = msgspec.field(name=_UNREADABLE_FIELD, default=None)


_mark_decoder = msgspec.json.Decoder(_MarkOnly)
_RECURRENCE_NAME = b'"$again"'
_SAGA_NAME = b'"$saga"'
OPEN_SAGA = _SAGA_NAME + b':{"steps":["'
"""The body of a job that has something to undo contains this, and no other body does. Stores search for it, because a
cancelled job ends only when nothing is left to undo."""
UNDOES_CANCELLED = f'"{_UNDOES}":true'.encode()
"""The body of a cancelled job that has begun to undo contains this, and no other body does. Stores search for it: such
a job may be given back for later; one that does not know yet that it was cancelled is due at once."""

_metadata_decoder = msgspec.json.Decoder(BodyMetadata)


def read_metadata(body: bytes) -> BodyMetadata:
    """Decode the metadata of a JSON body."""
    return _metadata_decoder.decode(body)


def read_progress(body: bytes | None) -> Progress | None:
    """Return the progress in a body; None if it has none, or is not JSON."""
    return _read_leniently(body).progress


def read_published(body: bytes | None) -> dict[str, Any]:
    """Return the published fields in a body; none if it has none, or is not JSON."""
    return _read_leniently(body).published


def awaits_messages(body: bytes | None) -> bool:
    """Return whether a body records calls of other jobs, or events; their messages are stored with the job itself."""
    found = _read_leniently(body)
    return bool(found.calls or found.events)


def _read_leniently(body: bytes | None) -> BodyMetadata:
    try:
        return BodyMetadata() if body is None else read_metadata(body)
    except DECODE_ERRORS:
        return BodyMetadata()


def read_recurrence(body: bytes) -> Recurrence | None:
    """Return the recurrence in a body; None if the job was never rescheduled and is not periodic."""
    return _read_leniently(body).recurrence if _RECURRENCE_NAME in body else None  # cheaper than decoding


def read_saga(body: bytes) -> SagaMark | None:
    """Return the saga mark in a body; None if it has none, or cannot be read."""
    return _read_leniently(body).saga if _SAGA_NAME in body else None  # cheaper than decoding


def with_metadata(body: bytes, metadata: BodyMetadata) -> bytes:
    """Add metadata to a body that has none."""
    added = msgspec.json.encode(metadata)
    body = with_mark(body, is_kept=metadata.kept > 0)
    return body if added == b"{}" else body[:-1] + b"," + added[1:]


def replace_metadata(body: bytes, metadata: BodyMetadata) -> bytes:
    """Return a body with the same fields, and with ``metadata`` as its only metadata."""
    fields = {name: value for name, value in read_fields(body).items() if not name.startswith(_PREFIX)}
    return with_metadata(msgspec.json.encode(fields), metadata)


def body_to_undo(body: bytes, why: str, *, is_cancelled: bool = False) -> bytes | None:
    """Return the body with which a job that has given up undoes its sagas.

    None if there is nothing to undo, or the job had already given up for another reason.

    Args:
        body: body of the job.
        why: why it gave up.
        is_cancelled: whether it was cancelled.
    """
    metadata = _read_leniently(body) if _SAGA_NAME in body else BodyMetadata()
    if metadata.saga is None or not metadata.saga.steps or metadata.saga.why not in {"", why[:_MOST_WHY]}:
        return None
    metadata.saga.give_up(why, is_cancelled=is_cancelled)
    metadata.tries.clear()
    return replace_metadata(body, metadata)


def with_reports(body: bytes, metadata: BodyMetadata) -> bytes:
    """Return a body in which only the progress and the published fields are replaced."""
    reports: dict[str, object] = {f"{_PREFIX}published": metadata.published}
    if metadata.progress is not None:
        reports[f"{_PREFIX}progress"] = metadata.progress
    return _with(body, reports)


def with_policy(body: bytes, policy: Policy) -> bytes:
    """Return a body in which only the policy is replaced.

    Raises:
        BodyInvalid: the body is not a JSON object.
    """
    try:
        return _with(body, {POLICY_FIELD: policy})
    except DECODE_ERRORS as error:
        raise BodyInvalid(f"a backoff or time limit needs a body that is a JSON object: {error}") from error


def read_unreadable_mark(body: bytes) -> UnreadableMark | None:
    """Return the mark of an unreadable job; None if it has none."""
    try:
        return _mark_decoder.decode(body).mark
    except DECODE_ERRORS:
        return None


def with_unreadable_mark(body: bytes, mark: UnreadableMark) -> bytes | None:
    """Return a body in which only the mark is replaced; None if the body is not a JSON object."""
    try:
        return _with(body, {_UNREADABLE_FIELD: mark})
    except DECODE_ERRORS:
        return None


def _with(body: bytes, values: Mapping[str, object]) -> bytes:
    fields = read_fields(body)
    fields.update({name: msgspec.Raw(msgspec.json.encode(value)) for name, value in values.items()})
    return msgspec.json.encode(fields)
