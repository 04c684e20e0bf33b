"""What PinLater keeps of a job in its body, beside the job's own fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.model.policy import POLICY_FIELD, Policy

_PREFIX = "$"

KEPT_SIGN = ord(_PREFIX)
"""Nothing is kept in a body without this byte; looking for one byte costs next to nothing."""


class Progress(msgspec.Struct, frozen=True):
    """How far a job has come; see ``JobContext.progress``.

    Attributes:
        done: work that is done, in units of the job's own.
        total: all of the work, in the same units; None if that is not known.
        note: what the job says about it.
    """

    done: float
    total: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for number in (self.done, 0 if self.total is None else self.total):
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(
                    f"progress({self.done}, {self.total}) counts work; it has to be finite and not negative"
                )

    @property
    def fraction(self) -> float | None:
        """The part that is done, from 0 to 1; None if the total is not known."""
        if self.total is None:
            return None
        return min(self.done / self.total, 1.0) if self.total else 1.0


class Again(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a job that was rescheduled, or planted by a schedule; see ``JobContext.reschedule``.

    Attributes:
        due_ms: epoch milliseconds that its present run was planned for.
        run: how many runs it has had before.
        schedule: of a periodic job: text of the schedule that it was planted for.
        failures: of a periodic job: how many of the last runs have failed, one after the other.
    """

    due_ms: int
    run: int = 0
    schedule: str = ""
    failures: int = 0


PLANTED_KEY = r"\S+ (?:every|cron) "
"""How the unique keys of planted jobs begin, as a pattern: the name of the class, and the schedule."""


def planted_key(name: str, schedule: str) -> str:
    """Return the unique key of the job that is planted for a class, by the schedule's text: there is one at a time."""
    return f"{name} {schedule}"


class Kept(msgspec.Struct, omit_defaults=True):
    """Written into the body under names that no field can have.

    Attributes:
        steps: name of a finished step -> what it returned, as JSON can carry it.
        progress: how far the job says it has come.
        sleeps: name of a sleep -> epoch milliseconds at which it ends.
        policy: what the enqueue said about attempts, instead of the class.
        tries: name of a step that failed -> the attempt of the job, and how often the step has failed within it.
        enqueued: name of a follow-up job -> its descriptor.
        again: of a job that was rescheduled, or planted by a schedule.
        trace: trace context of its enqueue; not checked, since no job is to fail for it.
        previous: trace context of the run before this one; likewise.
    """

    steps: dict[str, Any] = msgspec.field(name=f"{_PREFIX}steps", default_factory=dict)
    progress: Progress | None = msgspec.field(name=f"{_PREFIX}progress", default=None)
    sleeps: dict[str, int] = msgspec.field(name=f"{_PREFIX}sleeps", default_factory=dict)
    policy: Policy | None = msgspec.field(name=POLICY_FIELD, default=None)
    tries: dict[str, tuple[int, int]] = msgspec.field(name=f"{_PREFIX}tries", default_factory=dict)
    enqueued: dict[str, str] = msgspec.field(name=f"{_PREFIX}enqueued", default_factory=dict)
    again: Again | None = msgspec.field(name=f"{_PREFIX}again", default=None)
    trace: Any = msgspec.field(name=f"{_PREFIX}trace", default=None)
    previous: Any = msgspec.field(name=f"{_PREFIX}previous", default=None)

    @property
    def run(self) -> int:
        """How many runs the job has had before this one."""
        return 0 if self.again is None else self.again.run

    def for_next_run(self, due_ms: int, trace: Mapping[str, str] | None = None, *, is_failure: bool = False) -> Kept:
        """Return what the next run begins with: nothing of this one's but that it was there, and what was enqueued.

        Args:
            due_ms: epoch milliseconds that it is planned for.
            trace: trace context of this run.
            is_failure: this run has failed for good.
        """
        again = self.again or Again(due_ms)
        failures = again.failures + 1 if is_failure else 0
        return Kept(policy=self.policy, again=Again(due_ms, self.run + 1, again.schedule, failures), previous=trace)


class Unread(msgspec.Struct, frozen=True):
    """Of a job that a worker could not read and gave back.

    Attributes:
        since_ms: epoch milliseconds since which nobody reads it.
        until_ms: when it is due again; one that has become due at another time has met with something else since.
    """

    since_ms: int
    until_ms: int


_UNREAD_FIELD = f"{_PREFIX}unread"


class _Unreadable(msgspec.Struct):
    unread: Unread | None = msgspec.field(name=_UNREAD_FIELD, default=None)


_unreadable_decoder = msgspec.json.Decoder(_Unreadable)
_AGAIN_MARK = b'"$again"'
_kept_decoder = msgspec.json.Decoder(Kept)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def kept_in(body: bytes) -> Kept:
    """Return what is kept in the body of one of our jobs."""
    return _kept_decoder.decode(body)


def progress_in(body: bytes | None) -> Progress | None:
    """Return how far a job has come, by its body; None if that says nothing, or is no job of ours."""
    try:
        return None if body is None else kept_in(body).progress
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def again_in(body: bytes) -> Again | None:
    """Return what a job that was rescheduled knows of its runs, by its body; None of any other."""
    if _AGAIN_MARK not in body:  # costs less than decoding
        return None
    try:
        return kept_in(body).again
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def with_kept(body: bytes, kept: Kept) -> bytes:
    """Add to a body that nothing is kept in yet."""
    added = msgspec.json.encode(kept)
    return body if added == b"{}" else body[:-1] + b"," + added[1:]


def renewed(body: bytes, kept: Kept) -> bytes:
    """Return a body with the same fields, and with nothing kept but ``kept``."""
    fields = {name: value for name, value in _fields_decoder.decode(body).items() if not name.startswith(_PREFIX)}
    return with_kept(msgspec.json.encode(fields), kept)


def with_progress(body: bytes, progress: Progress) -> bytes:
    """Return a body with nothing changed but the progress."""
    return _with(body, f"{_PREFIX}progress", progress)


def with_policy(body: bytes, policy: Policy) -> bytes:
    """Return a body with nothing changed but what is said about attempts.

    Raises:
        BodyInvalid: it is no JSON object, so it is none of a job class of ours.
    """
    try:
        return _with(body, POLICY_FIELD, policy)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyInvalid(
            f"only a body that is a JSON object has a place for a backoff or time limit: {error}"
        ) from error


def unread_in(body: bytes) -> Unread | None:
    """Return what is kept of a job that nobody could read; None if nothing is."""
    try:
        return _unreadable_decoder.decode(body).unread
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def with_unread(body: bytes, unread: Unread) -> bytes | None:
    """Return a body with nothing changed but that; None if it is no JSON object, and has no place for it."""
    try:
        return _with(body, _UNREAD_FIELD, unread)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _with(body: bytes, name: str, value: object) -> bytes:
    fields = _fields_decoder.decode(body)
    fields[name] = msgspec.Raw(msgspec.json.encode(value))
    return msgspec.json.encode(fields)
