"""What one job process holds, as bytes in shared memory and as records to read.

Layout of a slot (``slot`` writes it)::

    words       counters and times, see the names below
    identity    JSON: source, queues, names of job classes; written once at boot
    4 batches   words, one state byte a job, one retry delay a job, text: claim and descriptors, a line each

A process may be killed between any two stores. So the number of jobs of a batch is stored last and cleared first:
a batch is either whole or not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

BATCHES = 4
MAX_JOBS = 250

GONE, HELD, RUNNING, SUCCEEDED, FAILED, DISCARDED = range(6)
"""A job: not ours any more; not started; running; the others have ended, which the server does not know yet."""

SLOT_BYTES = 128 << 10

CHANGES, SENT, SETTLED, REVOKED, RETRIES_DUE_MS, SINCE_NS, KIND, IDENTITY_BYTES = range(8)
WORDS_BYTES = 64
BATCHES_AT = 16 << 10
IDENTITY_ROOM = BATCHES_AT - WORDS_BYTES

BATCH_BYTES = (SLOT_BYTES - BATCHES_AT) // BATCHES
COUNT, FETCHED_NS, TEXT_BYTES, IS_REVOKED = range(4)
BATCH_WORDS_BYTES = 32
STATES_AT = BATCH_WORDS_BYTES
DELAYS_AT = STATES_AT + 256
TEXT_AT = DELAYS_AT + 4 * 256
TEXT_ROOM = BATCH_BYTES - TEXT_AT


class Identity(msgspec.Struct):
    """Who writes a slot.

    Attributes:
        source: how the process calls itself to the server; its dequeues append their number.
        queues: those it serves.
        kinds: names of its job classes; the running one is noted by its position here.
    """

    source: str = ""
    queues: list[str] = []
    kinds: list[str] = []

    def source_of(self, dequeue: int) -> str:
        """Return the source of one dequeue, so that its claims can be given back though nobody read its reply."""
        return f"{self.source}.{dequeue}"


class HeldJob(NamedTuple):
    """One job on the board; ``delay_ms`` until its next attempt, should this one fail."""

    descriptor: str
    state: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """The jobs of one dequeue; those that are gone left out."""

    number: int
    claim: str
    fetched_ns: int
    is_revoked: bool
    jobs: list[HeldJob]


@dataclass(frozen=True, slots=True)
class Holding:
    """All that one process holds.

    Attributes:
        identity: who.
        unread: numbers of the dequeues whose reply it has not read.
        running_since_ns: monotonic time at which the running job started.
        running_kind: name of its class.
        batches: what it has fetched.
    """

    identity: Identity
    unread: range
    running_since_ns: int
    running_kind: str
    batches: list[HeldBatch]

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it needs care."""
        return not self.unread and not self.batches


def read_holding(data: bytes) -> Holding:
    """Read a copy of a slot."""
    words = memoryview(data)[:WORDS_BYTES].cast("Q")
    identity = _identity(data[WORDS_BYTES : WORDS_BYTES + words[IDENTITY_BYTES]])
    kind = words[KIND]
    return Holding(
        identity,
        range(words[SETTLED] + 1, words[SENT] + 1),
        words[SINCE_NS],
        identity.kinds[kind] if kind < len(identity.kinds) else "job",
        [batch for number in range(BATCHES) if (batch := _batch(data, number)) is not None],
    )


def _identity(text: bytes) -> Identity:
    return msgspec.json.decode(text, type=Identity) if text else Identity()


def _batch(data: bytes, number: int) -> HeldBatch | None:
    start = BATCHES_AT + number * BATCH_BYTES
    area = memoryview(data)[start : start + BATCH_BYTES]
    words = area[:BATCH_WORDS_BYTES].cast("Q")
    count = words[COUNT]
    if not count:
        return None
    claim, *descriptors = bytes(area[TEXT_AT : TEXT_AT + words[TEXT_BYTES]]).decode().split("\n")
    states = area[STATES_AT : STATES_AT + count]
    delays = area[DELAYS_AT : DELAYS_AT + 4 * count].cast("I")
    jobs = [HeldJob(*job) for job in zip(descriptors, states, delays, strict=True) if job[1] != GONE]
    return HeldBatch(number, claim, words[FETCHED_NS], bool(words[IS_REVOKED]), jobs) if jobs else None
