"""Layout of a row of the claim table, and snapshots of it.

Layout of a row, which ``row`` writes::

    words       counters and times, see the names below
    identity    JSON of ``Identity``, written once at boot
    batches     words; columns with a value per job; text: claim and descriptors, a line each

A process may be killed between any two writes. So the number of jobs of a batch is written last and cleared first:
a batch is either whole or not there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from pinlater.worker.claim_table.contact import CONTACT_WORDS
from pinlater.worker.claim_table.outcomes import read_failures, read_results

MAX_JOBS = 250
"""Most jobs of one dequeue."""

GONE, HELD, RUNNING, SUCCEEDED, FAILED, DISCARDED, RETURNING, RESULTED, STARTING = range(9)
"""State of a job: gone from the worker; not started; running; the others have ended, but are not acked yet.
``RETURNING``: it is released with a new body, or acked with a large result. The table has no room for either, so only
its process can do that. ``RESULTED``: succeeded with a result that is in the table; snapshots call it ``SUCCEEDED``.
``STARTING``: handed to the thread or event loop that is to run it, which may be blocked by another job."""
ENDED = frozenset((SUCCEEDED, FAILED, DISCARDED))
"""States in snapshots of jobs that others than their process can ack."""

CHANGES, SENT, RECEIVED, REVOKED, RETRIES_DUE_MS, USED, IDENTITY_BYTES, IDLE_NS, WORKED_NS, CONTACT = range(10)
STOPPED_NS = CONTACT + CONTACT_WORDS
"""``USED``: number of batches that were ever filled; the others are not read. ``CONTACT``: two words. ``STOPPED_NS``:
when a job of the row was last marked in its column ``stop_ns``."""
WORDS_BYTES = 128
BATCHES_AT = 16 << 10
MOST_IDENTITY_BYTES = BATCHES_AT - WORDS_BYTES

COUNT, FETCHED_NS, TEXT_BYTES, IS_REVOKED, SENT_TO = range(5)
"""``SENT_TO``: the process has sent the acks of the jobs before that position."""
BATCH_WORDS_BYTES = 40

ASKED = 1 << 63
"""In ``stop_ns``: the job is asked to stop."""

_SPARE_BATCHES = 512
"""On top of a process's running jobs: for prefetched jobs and unconfirmed acks."""


class Columns(NamedTuple):
    """Columns of a batch, with one value per job.

    Attributes:
        started_ns: monotonic time when the job started; 0: not yet.
        kill_ns: monotonic time when its process is to be killed for it; 0: never.
        give_up_ns: monotonic time after which no other attempt begins; 0: never.
        stop_ns: 0: the job may go on. Otherwise why it is to stop: the fetch time of the batch in which its claim was
            lost, or ended as the keeper acked the job, which does not apply to a batch fetched at another time; or
            ``ASKED`` and the monotonic time when it was asked to stop, which does not apply to a batch fetched later.
        delays: milliseconds until the next attempt if this one fails.
        kinds: position of the job class in ``Identity.kinds``.
        states: state of the job, see above.
    """

    started_ns: memoryview
    kill_ns: memoryview
    give_up_ns: memoryview
    stop_ns: memoryview
    delays: memoryview
    kinds: memoryview
    states: memoryview


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the batches of a row.

    Attributes:
        batches: most batches.
        batch_jobs: most jobs of a batch.
        batch_bytes: size of a batch.
    """

    batches: int
    batch_jobs: int
    batch_bytes: int

    @property
    def row_bytes(self) -> int:
        """Size of a whole row."""
        return self.start(self.batches)

    @property
    def text_at(self) -> int:
        """Where the text of a batch begins."""
        return -(-(BATCH_WORDS_BYTES + 39 * self.batch_jobs) // 8) * 8

    def start(self, number: int) -> int:
        """Return where a batch begins."""
        return BATCHES_AT + number * self.batch_bytes

    def columns(self, batch: memoryview) -> Columns:
        """Return the columns of a batch, given its bytes."""
        sizes = (8, 8, 8, 8, 4, 2, 1)
        ends = itertools.accumulate(sizes, lambda at, size: at + size * self.batch_jobs, initial=BATCH_WORDS_BYTES)
        *times, delays, kinds, states = (batch[start:end] for start, end in itertools.pairwise(ends))
        started_ns, kill_ns, give_up_ns, stop_ns = (each.cast("Q") for each in times)
        return Columns(started_ns, kill_ns, give_up_ns, stop_ns, delays.cast("I"), kinds.cast("H"), states)


SOLO_LAYOUT = Layout(batches=8, batch_jobs=MAX_JOBS, batch_bytes=34 << 10)
"""Layout for a process that runs one job at a time: few dequeues of many jobs each. Four batches keep it
busy; the others are for acks that wait for a shard that is away."""


def team_layout(capacity: int) -> Layout:
    """Return the layout for processes that run up to ``capacity`` jobs at once.

    Jobs end in any order, so each is a batch by itself: otherwise a long job would block the memory of a whole batch.
    """
    return Layout(batches=capacity + _SPARE_BATCHES, batch_jobs=1, batch_bytes=512)


class Identity(msgspec.Struct):
    """Identifies the process that writes a row.

    Attributes:
        source: source of the process's calls; each dequeue appends its number.
        queues: queues that it serves.
        kinds: names of its job classes; jobs refer to them by position.
        capacity: number of jobs it can run at once.
        pid: its process id.
        started_ms: when it started, epoch milliseconds.
        targets: queue -> latency target in seconds; queues without one are left out.
        patience: for each of ``kinds``, seconds until the process is killed for a job that is asked to stop and does
            not; empty: never.
        generation: how many reloads came before it.
    """

    source: str = ""
    queues: list[str] = []
    kinds: list[str] = []
    capacity: int = 1
    pid: int = 0
    started_ms: int = 0
    targets: dict[str, float] = {}
    patience: list[float] = []
    generation: int = 0

    def source_of(self, dequeue: int) -> str:
        """Return the source of one dequeue, by which its claims can be released even if its reply was not read."""
        return f"{self.source}.{dequeue}"


class HeldJob(NamedTuple):
    """A job in the claim table; see ``Columns``.

    ``kill_ns`` also covers a job that is asked to stop and does not. ``position`` is its position in the batch.
    ``failure`` says how it has failed, as ``Failure.encoded`` does.
    """

    descriptor: str
    state: int
    kind: str
    delay_ms: int
    started_ns: int
    kill_ns: int
    give_up_ns: int
    position: int
    is_cancelled: bool = False
    result: bytes | None = None
    failure: bytes | None = None


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """The jobs of one batch, without those that are gone, or ended without a claim."""

    number: int
    claim: str
    fetched_ns: int
    is_revoked: bool
    sent_to: int
    jobs: list[HeldJob]


@dataclass(frozen=True, slots=True)
class ClaimSnapshot:
    """Holds all claims of one process.

    Attributes:
        identity: the process.
        unread: numbers of the dequeues whose reply was not read.
        batches: fetched batches.
        revoked: those of ``unread`` that the keeper has revoked: the process starts none of their jobs.
    """

    identity: Identity
    unread: range
    batches: list[HeldBatch]
    revoked: range = range(0)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to recover."""
        return not self.unread and not self.batches

    def in_state(self, state: int) -> Iterator[tuple[HeldBatch, HeldJob]]:
        """Yield the jobs in that state."""
        for batch in self.batches:
            for job in batch.jobs:
                if job.state == state:
                    yield batch, job


def read_snapshot(data: bytes, layout: Layout = SOLO_LAYOUT) -> ClaimSnapshot:
    """Decode a copy of a row."""
    words = memoryview(data)[:WORDS_BYTES].cast("Q")
    identity = read_identity(data[WORDS_BYTES : WORDS_BYTES + words[IDENTITY_BYTES]])
    batches = (_batch(data, number, layout, identity) for number in range(words[USED]))
    return ClaimSnapshot(
        identity,
        range(words[RECEIVED] + 1, words[SENT] + 1),
        [batch for batch in batches if batch is not None],
        range(words[RECEIVED] + 1, words[REVOKED] + 1),
    )


def read_running(data: bytes, layout: Layout) -> list[HeldJob]:
    """Return the running jobs in a copy of a row; batches without any are skipped, which is faster."""
    words = memoryview(data)[:WORDS_BYTES].cast("Q")
    identity = read_identity(data[WORDS_BYTES : WORDS_BYTES + words[IDENTITY_BYTES]])
    busy = [number for number in range(words[USED]) if RUNNING in _states(data, number, layout)]
    batches = (_batch(data, number, layout, identity) for number in busy)
    return [job for batch in batches if batch is not None for job in batch.jobs if job.state == RUNNING]


def _states(data: bytes, number: int, layout: Layout) -> bytes:
    return bytes(layout.columns(memoryview(data)[layout.start(number) : layout.start(number + 1)]).states)


def read_identity(text: bytes) -> Identity:
    """Decode an identity; empty if no process uses the row."""
    return msgspec.json.decode(text, type=Identity) if text else Identity()


def _batch(data: bytes, number: int, layout: Layout, identity: Identity) -> HeldBatch | None:
    area = memoryview(data)[layout.start(number) : layout.start(number + 1)]
    words = area[:BATCH_WORDS_BYTES].cast("Q")
    if not words[COUNT]:
        return None
    text_at = layout.text_at
    claim, *descriptors = bytes(area[text_at : text_at + words[TEXT_BYTES]]).decode().split("\n")
    kinds = identity.kinds
    started_ns, kill_ns, give_up_ns, stop_ns, delays, numbers, states = layout.columns(area)
    jobs = [
        HeldJob(descriptor, state, kinds[kind] if kind < len(kinds) else "job", *others)
        for descriptor, state, kind, *others in zip(
            descriptors, states, numbers, delays, started_ns, kill_ns, give_up_ns, itertools.count(), strict=False
        )
        if state != GONE and not (stop_ns[others[-1]] == words[FETCHED_NS] and (state in ENDED or state == RESULTED))
    ]
    if not jobs:
        return None
    if RESULTED in states:
        jobs = _with_results(jobs, read_results(area, text_at + words[TEXT_BYTES]))
    if FAILED in states or DISCARDED in states:
        failures = read_failures(area, text_at + words[TEXT_BYTES])
        jobs = [_with_failure(job, failures.get(job.position)) for job in jobs]
    if any(stop_ns):
        jobs = [_if_asked(job, asked_at(stop_ns[job.position], words[FETCHED_NS]), numbers, identity) for job in jobs]
    return HeldBatch(number, claim, words[FETCHED_NS], bool(words[IS_REVOKED]), words[SENT_TO], jobs)


def _with_results(jobs: list[HeldJob], results: dict[int, bytes]) -> list[HeldJob]:
    """Return the jobs; those that have succeeded with a result get it."""
    return [_with_result(job, results.get(job.position)) if job.state == RESULTED else job for job in jobs]


def _with_result(job: HeldJob, result: bytes | None) -> HeldJob:
    return job._replace(state=RETURNING if result is None else SUCCEEDED, result=result)


def _with_failure(job: HeldJob, failure: bytes | None) -> HeldJob:
    return job._replace(failure=failure) if job.state in (FAILED, DISCARDED) else job


def _if_asked(job: HeldJob, asked_ns: int, numbers: memoryview[int], identity: Identity) -> HeldJob:
    """Return a job, changed if it was asked to stop at monotonic ``asked_ns``; 0: it was not."""
    if not asked_ns:
        return job
    kind, kill_ns = numbers[job.position], job.kill_ns
    if job.state == RUNNING and kind < len(identity.patience):
        patience_ends_ns = asked_ns + int(identity.patience[kind] * 1e9)
        kill_ns = min(kill_ns or patience_ends_ns, patience_ends_ns)
    return job._replace(kill_ns=kill_ns, is_cancelled=True)


def asked_at(stop_ns: int, fetched_ns: int) -> int:
    """Return when a job of a batch was asked to stop (monotonic), given its mark in ``stop_ns``; 0: it was not."""
    asked_ns = stop_ns ^ ASKED
    return asked_ns if fetched_ns < asked_ns < ASKED else 0
