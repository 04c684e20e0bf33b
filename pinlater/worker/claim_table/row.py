"""One process's part of the claim board, as its owner writes it. Nothing here takes a lock."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from pinlater.errors import ConfigError
from pinlater.worker.claim_table.contact import CONTACT_WORDS, Contact
from pinlater.worker.claim_table.snapshot import (
    ALONE,
    BATCH_WORDS_BYTES,
    CHANGES,
    CONTACT,
    COUNT,
    FETCHED_NS,
    HELD,
    IDENTITY_BYTES,
    IDENTITY_ROOM,
    IDLE_NS,
    IS_REVOKED,
    RETRIES_DUE_MS,
    REVOKED,
    SENT,
    SENT_TO,
    SETTLED,
    TEXT_BYTES,
    TOLD_OF,
    TOLD_TO,
    USED,
    WORDS_BYTES,
    WORKED_NS,
    HeldJob,
    Holding,
    Identity,
    Layout,
    read_holding,
    read_identity,
    read_running,
    told_in,
)

_READ_TRIES = 1000
_READ_PAUSE_SECONDS = 0.0001


class BatchArea:
    """Where one batch stands.

    Attributes:
        states, since_ns, kinds, delays, kill_ns, until_ns, lost_of: its columns; stored directly since it is done for
            every job.
    """

    __slots__ = ("_memory", "_room", "_slot", "_text_at", "_words", "delays", "is_free", "kill_ns", "kinds",
                 "lost_of", "since_ns", "states", "until_ns")  # fmt: skip

    def __init__(self, memory: memoryview, slot: Slot, layout: Layout) -> None:
        self._memory = memory
        self._slot = slot
        self._room = layout.room
        self._text_at = layout.text_at
        self._words = memory[:BATCH_WORDS_BYTES].cast("Q")
        columns = layout.columns(memory)
        self.since_ns, self.kill_ns, self.until_ns, self.lost_of, self.delays, self.kinds, self.states = columns
        self.is_free = True

    @property
    def fetched_ns(self) -> int:
        """When it was put here; monotonic time."""
        return self._words[FETCHED_NS]

    @property
    def is_revoked(self) -> bool:
        """Whether the keeper has taken back the jobs that were not started."""
        return self._words[IS_REVOKED] != 0

    def revoke(self) -> None:
        """Set by the keeper."""
        self._words[IS_REVOKED] = 1

    @property
    def told(self) -> range:
        """Positions of jobs whose success the keeper has told."""
        return told_in(self._words)

    def note_told(self, fetched_ns: int, to: int) -> None:
        """Set by the keeper, when it has told the successes before a position, of the batch that was fetched then.

        The time stands last: should the owner be faster, and another batch be here, this does not concern that one.
        """
        self._words[TOLD_TO] = to
        self._words[TOLD_OF] = fetched_ns

    def note_lost(self, position: int, fetched_ns: int) -> None:
        """Note that a job is no longer ours, of the batch that was fetched then; set by the keeper, too."""
        self.lost_of[position] = fetched_ns

    def is_lost(self, position: int) -> bool:
        """Whether a job is no longer ours."""
        return self.lost_of[position] == self.fetched_ns

    def note_sent(self, to: int) -> None:
        """Note that the ends of all jobs before a position were sent."""
        self._words[SENT_TO] = to

    def hold(self, claim: str, descriptors: Sequence[str]) -> int:
        """Put jobs on the board, unstarted; return how many found room."""
        text = "\n".join((claim, *descriptors[: self._room])).encode()
        room = len(self._memory) - self._text_at
        if len(text) > room:
            text = text[: text.rindex(b"\n", 0, room)]
        count = text.count(b"\n")
        words, slot_words = self._words, self._slot.words
        slot_words[CHANGES] += 1
        self._memory[BATCH_WORDS_BYTES : self._text_at] = bytes(self._text_at - BATCH_WORDS_BYTES)
        self.states[:count] = bytes((HELD,)) * count
        self._memory[self._text_at : self._text_at + len(text)] = text
        words[TOLD_OF] = words[TOLD_TO] = words[SENT_TO] = words[IS_REVOKED] = 0
        words[TEXT_BYTES], words[FETCHED_NS] = len(text), time.monotonic_ns()
        words[COUNT] = count
        slot_words[CHANGES] += 1
        self.is_free = False
        return count

    def clear(self) -> None:
        """Take the batch off the board."""
        self._words[COUNT] = 0
        if not self.is_free:
            self.is_free = True
            self._slot.take_back(self)


class Slot:
    """All that one job process shows.

    Attributes:
        words: counters and times, for stores without a call in between.
        contact: with the servers; kept when the slot is cleared.
        room: how many jobs a batch can have.
    """

    def __init__(self, memory: memoryview, layout: Layout = ALONE) -> None:
        self._memory = memory
        self._layout = layout
        self.words = memory[:WORDS_BYTES].cast("Q")
        self.contact = Contact(self.words[CONTACT : CONTACT + CONTACT_WORDS])
        self.room = layout.room
        self._free: list[BatchArea] = []
        self._made = 0

    # The owner's side

    def introduce(self, identity: Identity) -> None:
        """Begin, in the name of a new process.

        Raises:
            ConfigError: its queues and classes have too much text.
        """
        text = msgspec.json.encode(identity)
        if len(text) > IDENTITY_ROOM:
            raise ConfigError("too many queues and job classes for one worker; start several, each with a part of them")
        self.clear()
        self._memory[WORDS_BYTES : WORDS_BYTES + len(text)] = text
        self.words[IDENTITY_BYTES] = len(text)

    def free_batch(self) -> BatchArea | None:
        """Return a place for a batch, if there is one, which it is until it was held and cleared."""
        if not self._free and self._made < self._layout.batches:
            self._free.append(self.area(self._made))
            self._made += 1
            self.words[USED] = self._made
        return self._free.pop() if self._free else None

    @property
    def free_batches(self) -> int:
        """How many places there are."""
        return self._layout.batches - self._made + len(self._free)

    def take_back(self, area: BatchArea) -> None:
        """Let a place be used again."""
        self._free.append(area)

    def next_dequeue(self) -> int:
        """Return the number of a dequeue that is about to be sent."""
        self.words[SENT] = number = self.words[SENT] + 1
        return number

    def settle(self, dequeue: int) -> bool:
        """Note that a reply was read and its jobs are on the board; return whether the keeper was faster.

        Then it has given the jobs back, or left that to us.
        """
        self.words[SETTLED] = dequeue
        return self.words[REVOKED] >= dequeue

    def expect_retries(self, due_ms: int) -> None:
        """Note until when retries that this process caused will become due; monotonic milliseconds."""
        self.words[RETRIES_DUE_MS] = max(self.words[RETRIES_DUE_MS], due_ms)

    @property
    def retries_due_ms(self) -> int:
        """When all retries that its processes caused are due; monotonic milliseconds, 0 if there are none."""
        return self.words[RETRIES_DUE_MS]

    def idle_since(self, moment_ns: int) -> None:
        """Note since when, monotonic, there was nothing to do: then was the look that found none; 0: there is."""
        self.words[IDLE_NS] = moment_ns

    def worked(self) -> None:
        """Note that work ended now; it may have put more into any queue."""
        self.words[WORKED_NS] = time.monotonic_ns()

    # The others' side

    @property
    def is_taken(self) -> bool:
        """Whether a process is using it."""
        return self.words[IDENTITY_BYTES] != 0

    @property
    def identity(self) -> Identity:
        """Who is using it."""
        return read_identity(bytes(self._memory[WORDS_BYTES : WORDS_BYTES + self.words[IDENTITY_BYTES]]))

    @property
    def idle_since_ns(self) -> int:
        """Since when its owner has had nothing to do, monotonic; 0 if it has."""
        return self.words[IDLE_NS]

    @property
    def worked_ns(self) -> int:
        """When any of its owners last worked, monotonic."""
        return self.words[WORKED_NS]

    def area(self, number: int) -> BatchArea:
        """Return one of the places for batches."""
        return BatchArea(self._memory[self._layout.start(number) : self._layout.start(number + 1)], self, self._layout)

    def clear(self) -> None:
        """Take everything off the board."""
        for number in range(self.words[USED]):
            start = self._layout.start(number)
            self._memory[start : start + BATCH_WORDS_BYTES] = bytes(BATCH_WORDS_BYTES)
        for word in (SENT, SETTLED, REVOKED, USED, IDENTITY_BYTES, IDLE_NS):
            self.words[word] = 0
        self._free, self._made = [], 0

    def copy(self) -> bytes:
        """Return the slot's bytes as they are: for a process that has died."""
        return bytes(self._memory[: self._layout.start(self.words[USED])])

    def read(self) -> Holding:
        """Return what a living process holds, read between two changes."""
        data = self._steady_copy()
        return read_holding(data, self._layout) if data else Holding(Identity(), range(0), [])

    def running(self) -> list[HeldJob]:
        """Return the jobs that run now."""
        data = self._steady_copy()
        return read_running(data, self._layout) if data else []

    def _steady_copy(self) -> bytes:
        """Return the slot's bytes between two changes; none if its owner was stopped in the middle of one."""
        for _ in range(_READ_TRIES):
            before = self.words[CHANGES]
            data = self.copy()
            if not before % 2 and self.words[CHANGES] == before:
                return data
            time.sleep(_READ_PAUSE_SECONDS)
        return b""  # asked again soon

    def revoke_dequeues(self) -> None:
        """Forbid the owner to start jobs of replies that it has not read."""
        self.words[REVOKED] = self.words[SENT]
