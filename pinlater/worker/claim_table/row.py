"""A row of the claim table, as its job process writes it. Nothing here takes a lock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf

import msgspec

from pinlater.errors import ConfigError
from pinlater.worker.claim_table.contact import CONTACT_WORDS, Contact
from pinlater.worker.claim_table.outcomes import HEAD_BYTES, OutcomeArea
from pinlater.worker.claim_table.snapshot import (
    ASKED,
    BATCH_WORDS_BYTES,
    CHANGES,
    CONTACT,
    COUNT,
    DISCARDED,
    FAILED,
    FETCHED_NS,
    HELD,
    IDENTITY_BYTES,
    IDLE_NS,
    IS_REVOKED,
    MOST_IDENTITY_BYTES,
    RECEIVED,
    RESULTED,
    RETRIES_DUE_MS,
    RETURNING,
    REVOKED,
    SENT,
    SENT_TO,
    SOLO_LAYOUT,
    STOPPED_NS,
    TEXT_BYTES,
    USED,
    WORDS_BYTES,
    WORKED_NS,
    ClaimSnapshot,
    HeldJob,
    Identity,
    Layout,
    asked_at,
    read_identity,
    read_running,
    read_snapshot,
)

_YEARS_NS = 300_000_000 * 1_000_000_000
_READ_TRIES = 1000
_READ_PAUSE_SECONDS = 0.0001
_LOOK_AGAIN_SECONDS = 1.0


class BatchArea:
    """Memory of one batch in a row.

    Attributes:
        states, started_ns, kinds, delays, kill_ns, give_up_ns, stop_ns: its columns; written directly, to save calls.
    """

    __slots__ = (
        "_batch_jobs",
        "_memory",
        "_outcomes",
        "_row",
        "_text_at",
        "_words",
        "delays",
        "give_up_ns",
        "is_free",
        "kill_ns",
        "kinds",
        "started_ns",
        "states",
        "stop_ns",
    )  # fmt: skip

    def __init__(self, memory: memoryview, row: ClaimRow, layout: Layout) -> None:
        self._memory = memory
        self._outcomes = OutcomeArea(memory, row.count_change)
        self._row = row
        self._batch_jobs = layout.batch_jobs
        self._text_at = layout.text_at
        self._words = memory[:BATCH_WORDS_BYTES].cast("Q")
        columns = layout.columns(memory)
        self.started_ns, self.kill_ns, self.give_up_ns, self.stop_ns, self.delays, self.kinds, self.states = columns
        self.is_free = True

    @property
    def fetched_ns(self) -> int:
        """When the batch was fetched; monotonic time."""
        return self._words[FETCHED_NS]

    @property
    def is_revoked(self) -> bool:
        """Whether the keeper has taken back the jobs that were not started."""
        return self._words[IS_REVOKED] != 0

    def revoke(self) -> None:
        """Forbid the process to start more jobs of the batch; called by the keeper."""
        self._words[IS_REVOKED] = 1

    def mark_acked(self, position: int, fetched_ns: int) -> None:
        """Record that the keeper has acked an ended job, unless another batch is here than the one fetched then."""
        if self.fetched_ns == fetched_ns:
            self.stop_ns[position] = fetched_ns

    def mark_lost(self, position: int, fetched_ns: int) -> None:
        """Record that a claim was lost, unless another batch is here than the one fetched at that time.

        Called by the keeper, too.
        """
        if self.fetched_ns == fetched_ns:
            self.stop_ns[position] = fetched_ns
            self._row.words[STOPPED_NS] = time.monotonic_ns()

    def mark_cancelled(self, position: int, fetched_ns: int, asked_ns: int) -> None:
        """Record that a job is asked to stop; called by the keeper, too.

        Args:
            position: position of the job.
            fetched_ns: when its batch was fetched.
            asked_ns: a time before the job was read in that batch: if another batch is here by now, it came later.
        """
        if not asked_at(self.stop_ns[position], fetched_ns):
            self.stop_ns[position] = ASKED | max(asked_ns, fetched_ns + 1)
            self._row.words[STOPPED_NS] = time.monotonic_ns()

    def mark_undoing(self, position: int, fetched_ns: int) -> None:
        """Record that a cancelled job goes on to undo what it did: still asked to stop, but at a time years ahead."""
        self.stop_ns[position] = _undoing_mark(fetched_ns)

    def is_undoing(self, position: int, fetched_ns: int) -> bool:
        """Return whether a cancelled job is undoing what it did; False once its claim is lost."""
        return self.stop_ns[position] == _undoing_mark(fetched_ns)

    def mark_sent(self, to: int) -> None:
        """Record that the acks of all jobs before a position were sent."""
        self._words[SENT_TO] = to

    def write(self, claim: str, descriptors: Sequence[str]) -> int:
        """Write fetched jobs to the table, unstarted; return how many fit."""
        text = "\n".join((claim, *descriptors[: self._batch_jobs])).encode()
        most_bytes = len(self._memory) - self._text_at - HEAD_BYTES
        if len(text) > most_bytes:
            text = text[: text.rindex(b"\n", 0, most_bytes)]
        count = text.count(b"\n")
        words, row_words = self._words, self._row.words
        row_words[CHANGES] += 1
        self._memory[BATCH_WORDS_BYTES : self._text_at] = bytes(self._text_at - BATCH_WORDS_BYTES)
        self.states[:count] = bytes((HELD,)) * count
        self._memory[self._text_at : self._text_at + len(text)] = text
        self._outcomes.clear(self._text_at + len(text))
        words[SENT_TO] = words[IS_REVOKED] = 0
        words[TEXT_BYTES], words[FETCHED_NS] = len(text), time.monotonic_ns()
        words[COUNT] = count
        row_words[CHANGES] += 1
        self.is_free = False
        return count

    def put_result(self, position: int, result: bytes) -> bool:
        """Keep the result of a job that has succeeded; return False if there is no room for it."""
        is_kept = self._outcomes.put_result(position, result)
        self.states[position] = RESULTED if is_kept else RETURNING
        return is_kept

    @property
    def most_failure_bytes(self) -> int:
        """Most bytes of a failure for which there is room; not positive if there is none."""
        return self._outcomes.most_failure_bytes

    def put_failure(self, position: int, delay_ms: int | None, failure: bytes) -> None:
        """Keep the failure of a job.

        Args:
            position: position of the job.
            delay_ms: milliseconds until the next attempt; None: there is none.
            failure: the failure, of at most ``most_failure_bytes``; empty: only keep that the job has failed.
        """
        self.delays[position] = delay_ms or 0
        if failure:
            self._row.words[CHANGES] += 1  # it may take the room of another one, which the keeper may be reading
            self._outcomes.put_failure(position, failure)
            self._row.words[CHANGES] += 1
        self.states[position] = DISCARDED if delay_ms is None else FAILED

    def clear(self) -> None:
        """Remove the batch from the table."""
        self._words[COUNT] = 0
        if not self.is_free:
            self.is_free = True
            self._row.release_area(self)


def _undoing_mark(fetched_ns: int) -> int:
    return ASKED | (fetched_ns + _YEARS_NS)


class ClaimRow:
    """One job process's row of the claim table.

    Attributes:
        words: counters and times; written directly, to save calls.
        contact: contact with the servers; kept when the row is cleared.
        batch_jobs: most jobs of a batch.
    """

    def __init__(self, memory: memoryview, layout: Layout = SOLO_LAYOUT) -> None:
        self._memory = memory
        self._layout = layout
        self.words = memory[:WORDS_BYTES].cast("Q")
        self.contact = Contact(self.words[CONTACT : CONTACT + CONTACT_WORDS])
        self.batch_jobs = layout.batch_jobs
        self._free: list[BatchArea] = []
        self._made = 0

    # For the job process

    def register(self, identity: Identity) -> None:
        """Take over the row for a new process.

        Raises:
            ConfigError: the names of its queues and classes are too long.
        """
        text = msgspec.json.encode(identity)
        if len(text) > MOST_IDENTITY_BYTES:
            raise ConfigError("too many queues and job classes for one worker; start several, each with a part of them")
        self.clear()
        self._memory[WORDS_BYTES : WORDS_BYTES + len(text)] = text
        self.words[IDENTITY_BYTES] = len(text)

    def acquire_area(self) -> BatchArea | None:
        """Return free memory for a batch, or None; it stays reserved until the batch is cleared."""
        if not self._free and self._made < self._layout.batches:
            self._free.append(self.area(self._made))
            self._made += 1
            self.words[USED] = self._made
        return self._free.pop() if self._free else None

    @property
    def free_areas(self) -> int:
        """Number of batches that still fit."""
        return self._layout.batches - self._made + len(self._free)

    def count_change(self) -> None:
        """Count a change that is done, so that whoever has begun to copy the row before it begins again."""
        self.words[CHANGES] += 2

    def release_area(self, area: BatchArea) -> None:
        """Make the memory of a batch available again."""
        self._free.append(area)

    def start_dequeue(self) -> int:
        """Return the number of a dequeue about to be sent."""
        self.words[SENT] = number = self.words[SENT] + 1
        return number

    def finish_dequeue(self, dequeue: int) -> bool:
        """Record that a reply was read and its jobs are in the table; return whether the keeper revoked it.

        If so, the caller has to release the jobs, which the keeper may have released already.
        """
        self.words[RECEIVED] = dequeue
        return self.words[REVOKED] >= dequeue

    def record_retry_due(self, due_ms: int) -> None:
        """Record when the retries that this process caused are due; monotonic milliseconds."""
        self.words[RETRIES_DUE_MS] = max(self.words[RETRIES_DUE_MS], due_ms)

    @property
    def retries_due_ms(self) -> int:
        """When all retries that the row's processes caused are due; monotonic milliseconds, 0 if there are none."""
        return self.words[RETRIES_DUE_MS]

    def set_idle_since(self, moment_ns: int) -> None:
        """Record since when, monotonic, polls have found no job; 0: the process is busy."""
        self.words[IDLE_NS] = moment_ns

    def record_work(self) -> None:
        """Record that work ended now; it may have enqueued more to any queue."""
        self.words[WORKED_NS] = time.monotonic_ns()

    @property
    def stopped_ns(self) -> int:
        """When a job of the row was last marked as one that is to stop; monotonic."""
        return self.words[STOPPED_NS]

    # For the keeper and the master

    @property
    def is_used(self) -> bool:
        """Whether a process uses the row."""
        return self.words[IDENTITY_BYTES] != 0

    @property
    def identity(self) -> Identity:
        """Identity of the process that uses the row."""
        return read_identity(bytes(self._memory[WORDS_BYTES : WORDS_BYTES + self.words[IDENTITY_BYTES]]))

    @property
    def idle_since_ns(self) -> int:
        """Since when the process has been idle, monotonic; 0 if it is busy."""
        return self.words[IDLE_NS]

    @property
    def last_work_ns(self) -> int:
        """When any process of the row last worked, monotonic."""
        return self.words[WORKED_NS]

    def area(self, number: int) -> BatchArea:
        """Return the memory of a batch."""
        return BatchArea(self._memory[self._layout.start(number) : self._layout.start(number + 1)], self, self._layout)

    def clear(self) -> None:
        """Clear the row for the next process."""
        for number in range(self.words[USED]):
            start = self._layout.start(number)
            self._memory[start : start + BATCH_WORDS_BYTES] = bytes(BATCH_WORDS_BYTES)
        for word in (SENT, RECEIVED, REVOKED, USED, IDENTITY_BYTES, IDLE_NS, STOPPED_NS):
            self.words[word] = 0
        # To the next even number: the former process may have died in the middle of a change.
        self.words[CHANGES] += 2 - self.words[CHANGES] % 2
        self._free, self._made = [], 0

    def copy(self) -> bytes:
        """Return the row's bytes as they are, for a process that has died."""
        return bytes(self._memory[: self._layout.start(self.words[USED])])

    def snapshot(self) -> ClaimSnapshot:
        """Return a consistent snapshot of a living process."""
        data = self._steady_copy()
        return read_snapshot(data, self._layout) if data else ClaimSnapshot(Identity(), range(0), [])

    def running_jobs(self) -> list[HeldJob]:
        """Return the jobs running now."""
        data = self._steady_copy()
        return read_running(data, self._layout) if data else []

    def cancel_kill_at(self) -> float:
        """Return when the process is to be killed for a cancelled job that does not stop, monotonic; inf: never."""
        if not self.words[STOPPED_NS]:
            return inf
        data = self._steady_copy()
        if not data:
            return time.monotonic() + _LOOK_AGAIN_SECONDS
        running = read_running(data, self._layout)
        return min((job.kill_ns / 1e9 for job in running if job.is_cancelled and job.kill_ns), default=inf)

    def _steady_copy(self) -> bytes:
        """Return the row's bytes between two changes; empty if its process was stopped in the middle of one."""
        for _ in range(_READ_TRIES):
            before = self.words[CHANGES]
            data = self.copy()
            if not before % 2 and self.words[CHANGES] == before:
                return data
            time.sleep(_READ_PAUSE_SECONDS)
        return b""  # the caller will retry

    def revoke_dequeues(self) -> None:
        """Forbid the process to start jobs of replies that it has not read."""
        self.words[REVOKED] = self.words[SENT]
