"""What one job process holds, as bytes in shared memory and as records to read.

Layout of a slot (``slot`` writes it)::

    words       counters and times, see the names below
    identity    JSON: who, what it serves, names of job classes; written once at boot
    batches     words; columns with what is known of each job; text: claim and descriptors, a line each

A process may be killed between any two stores. So the number of jobs of a batch is stored last and cleared first:
a batch is either whole or not there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

MAX_JOBS = 250
"""Most jobs of one dequeue."""

GONE, HELD, RUNNING, SUCCEEDED, FAILED, DISCARDED, RETURNING = range(7)
"""A job: not ours any more; not started; running; the others have ended, which the server does not know yet.
``RETURNING``: it goes back with a body that the board has no room for, so that nobody else can give it back."""

CHANGES, SENT, SETTLED, REVOKED, RETRIES_DUE_MS, USED, IDENTITY_BYTES, IDLE_NS, WORKED_NS, CONTACT = range(10)
"""``USED``: how many of the batches were ever filled, so that nobody reads the others; ``CONTACT``: two words."""
WORDS_BYTES = 128
BATCHES_AT = 16 << 10
IDENTITY_ROOM = BATCHES_AT - WORDS_BYTES

COUNT, FETCHED_NS, TEXT_BYTES, IS_REVOKED, SENT_TO, TOLD_TO, TOLD_OF = range(7)
"""``SENT_TO``: the owner has sent the ends of the jobs before that position. ``TOLD_TO``: the keeper has told the
successes from there to here, of the batch that was fetched at ``TOLD_OF``; if that is another one, it is too late."""
BATCH_WORDS_BYTES = 56

_SPARE_BATCHES = 512
"""Beside the running jobs of a process: for those fetched ahead, and for ends that are not confirmed."""


class Columns(NamedTuple):
    """What is known of each job of a batch, beside its name; a column each.

    Attributes:
        since_ns: monotonic time at which it started; 0: not yet.
        kill_ns: monotonic time at which its process is to be killed for it; 0: never.
        until_ns: monotonic time after which no other attempt begins; 0: there is none.
        lost_of: when the batch was fetched whose job there is no longer ours, as the server has said; if another batch
            than this one was fetched then, it does not concern this one; 0: none.
        delays: milliseconds until its next attempt, should this one fail.
        kinds: the position of its class among the identity's.
        states: one of the states above.
    """

    since_ns: memoryview
    kill_ns: memoryview
    until_ns: memoryview
    lost_of: memoryview
    delays: memoryview
    kinds: memoryview
    states: memoryview


@dataclass(frozen=True, slots=True)
class Layout:
    """How the batches of a slot are laid out.

    Attributes:
        batches: how many there can be.
        room: jobs in one.
        batch_bytes: its size.
    """

    batches: int
    room: int
    batch_bytes: int

    @property
    def slot_bytes(self) -> int:
        """Size of a whole slot."""
        return self.start(self.batches)

    @property
    def text_at(self) -> int:
        """Where the text of a batch begins."""
        return -(-(BATCH_WORDS_BYTES + 39 * self.room) // 8) * 8

    def start(self, number: int) -> int:
        """Return where a batch begins."""
        return BATCHES_AT + number * self.batch_bytes

    def columns(self, batch: memoryview) -> Columns:
        """Return the columns of a batch, given its bytes."""
        sizes = (8, 8, 8, 8, 4, 2, 1)
        ends = itertools.accumulate(sizes, lambda at, size: at + size * self.room, initial=BATCH_WORDS_BYTES)
        *times, delays, kinds, states = (batch[start:end] for start, end in itertools.pairwise(ends))
        since_ns, kill_ns, until_ns, lost_of = (each.cast("Q") for each in times)
        return Columns(since_ns, kill_ns, until_ns, lost_of, delays.cast("I"), kinds.cast("H"), states)


ALONE = Layout(batches=4, room=MAX_JOBS, batch_bytes=34 << 10)
"""For a process that runs one job after the other: few dequeues, of many jobs each."""


def team_layout(places: int) -> Layout:
    """Return the layout for processes that run up to ``places`` jobs at once.

    These end in any order, so each is a batch by itself; else one long job would keep the room of a whole batch.
    """
    return Layout(batches=places + _SPARE_BATCHES, room=1, batch_bytes=512)


class Identity(msgspec.Struct):
    """Who writes a slot.

    Attributes:
        source: how the process calls itself to the server; its dequeues append their number.
        queues: those it serves.
        kinds: names of its job classes; those of jobs are noted by their position here.
        places: how many jobs it can run at once.
        pid: its process id.
        started_ms: when it began, epoch milliseconds.
    """

    source: str = ""
    queues: list[str] = []
    kinds: list[str] = []
    places: int = 1
    pid: int = 0
    started_ms: int = 0

    def source_of(self, dequeue: int) -> str:
        """Return the source of one dequeue, so that its claims can be given back though nobody read its reply."""
        return f"{self.source}.{dequeue}"


class HeldJob(NamedTuple):
    """One job on the board; see ``Columns``. ``position`` is its place in its batch."""

    descriptor: str
    state: int
    kind: str
    delay_ms: int
    since_ns: int
    kill_ns: int
    until_ns: int
    position: int


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """The jobs of one dequeue; those that are gone, or are known to the server to have succeeded, left out."""

    number: int
    claim: str
    fetched_ns: int
    is_revoked: bool
    sent_to: int
    jobs: list[HeldJob]


@dataclass(frozen=True, slots=True)
class Holding:
    """All that one process holds.

    Attributes:
        identity: who.
        unread: numbers of the dequeues whose reply it has not read.
        batches: what it has fetched.
    """

    identity: Identity
    unread: range
    batches: list[HeldBatch]

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it needs care."""
        return not self.unread and not self.batches

    def in_state(self, state: int) -> Iterator[tuple[HeldBatch, HeldJob]]:
        """Yield the jobs in that state."""
        for batch in self.batches:
            for job in batch.jobs:
                if job.state == state:
                    yield batch, job


def read_holding(data: bytes, layout: Layout = ALONE) -> Holding:
    """Read a copy of a slot."""
    words = memoryview(data)[:WORDS_BYTES].cast("Q")
    identity = read_identity(data[WORDS_BYTES : WORDS_BYTES + words[IDENTITY_BYTES]])
    batches = (_batch(data, number, layout, identity.kinds) for number in range(words[USED]))
    return Holding(
        identity, range(words[SETTLED] + 1, words[SENT] + 1), [batch for batch in batches if batch is not None]
    )


def read_running(data: bytes, layout: Layout = ALONE) -> list[HeldJob]:
    """Return the jobs that run, of a copy of a slot; it is looked at where there are some, which is less work."""
    words = memoryview(data)[:WORDS_BYTES].cast("Q")
    identity = read_identity(data[WORDS_BYTES : WORDS_BYTES + words[IDENTITY_BYTES]])
    busy = [number for number in range(words[USED]) if RUNNING in _states(data, number, layout)]
    batches = (_batch(data, number, layout, identity.kinds) for number in busy)
    return [job for batch in batches if batch is not None for job in batch.jobs if job.state == RUNNING]


def _states(data: bytes, number: int, layout: Layout) -> bytes:
    return bytes(layout.columns(memoryview(data)[layout.start(number) : layout.start(number + 1)]).states)


def read_identity(text: bytes) -> Identity:
    """Read who writes a slot; an empty one if nobody does."""
    return msgspec.json.decode(text, type=Identity) if text else Identity()


def _batch(data: bytes, number: int, layout: Layout, kinds: list[str]) -> HeldBatch | None:
    area = memoryview(data)[layout.start(number) : layout.start(number + 1)]
    words = area[:BATCH_WORDS_BYTES].cast("Q")
    if not words[COUNT]:
        return None
    text_at = layout.text_at
    claim, *descriptors = bytes(area[text_at : text_at + words[TEXT_BYTES]]).decode().split("\n")
    since_ns, kill_ns, until_ns, _, delays, numbers, states = layout.columns(area)
    told = told_in(words)
    jobs = [
        HeldJob(descriptor, state, kinds[kind] if kind < len(kinds) else "job", *others)
        for descriptor, state, kind, *others in zip(
            descriptors, states, numbers, delays, since_ns, kill_ns, until_ns, itertools.count(), strict=False
        )
        if state != GONE and not (state == SUCCEEDED and others[-1] in told)
    ]
    if not jobs:
        return None
    return HeldBatch(number, claim, words[FETCHED_NS], bool(words[IS_REVOKED]), words[SENT_TO], jobs)


def told_in(words: memoryview[int]) -> range:
    """Return the positions in a batch, given its words, whose successes the keeper has told."""
    return range(words[SENT_TO], words[TOLD_TO]) if words[TOLD_OF] == words[FETCHED_NS] else range(0)
