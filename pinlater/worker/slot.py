"""One process's part of the claim board, as its owner writes it. Nothing here takes a lock."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from pinlater.errors import ConfigError
from pinlater.worker.holding import (
    BATCH_BYTES,
    BATCH_WORDS_BYTES,
    BATCHES,
    BATCHES_AT,
    CHANGES,
    COUNT,
    DELAYS_AT,
    FETCHED_NS,
    HELD,
    IDENTITY_BYTES,
    IDENTITY_ROOM,
    IS_REVOKED,
    KIND,
    MAX_JOBS,
    RETRIES_DUE_MS,
    REVOKED,
    SENT,
    SETTLED,
    SINCE_NS,
    STATES_AT,
    TEXT_AT,
    TEXT_BYTES,
    TEXT_ROOM,
    WORDS_BYTES,
    Holding,
    Identity,
    read_holding,
)

_READ_TRIES = 1000
_READ_PAUSE_SECONDS = 0.0001


class BatchArea:
    """Where one batch stands.

    Attributes:
        states: one byte a job, to be stored directly: it is done twice for every job.
        delays: milliseconds until the next attempt, should this one fail.
    """

    __slots__ = ("_memory", "_slot_words", "_words", "delays", "is_free", "states")

    def __init__(self, memory: memoryview, slot_words: memoryview) -> None:
        self._memory = memory
        self._slot_words = slot_words
        self._words = memory[:BATCH_WORDS_BYTES].cast("Q")
        self.states = memory[STATES_AT:DELAYS_AT]
        self.delays = memory[DELAYS_AT:TEXT_AT].cast("I")
        self.is_free = True

    @property
    def is_revoked(self) -> bool:
        """Whether the keeper has taken back the jobs that were not started."""
        return self._words[IS_REVOKED] != 0

    def revoke(self) -> None:
        """Set by the keeper."""
        self._words[IS_REVOKED] = 1

    def hold(self, claim: str, descriptors: Sequence[str]) -> int:
        """Put jobs on the board, unstarted; return how many found room."""
        text = "\n".join((claim, *descriptors[:MAX_JOBS])).encode()
        if len(text) > TEXT_ROOM:
            text = text[: text.rindex(b"\n", 0, TEXT_ROOM)]
        count = text.count(b"\n")
        words, slot_words = self._words, self._slot_words
        slot_words[CHANGES] += 1
        self._memory[TEXT_AT : TEXT_AT + len(text)] = text
        words[TEXT_BYTES], words[FETCHED_NS], words[IS_REVOKED] = len(text), time.monotonic_ns(), 0
        self.states[:count] = bytes((HELD,)) * count
        self.delays[:count] = memoryview(bytes(4 * count)).cast("I")
        words[COUNT] = count
        slot_words[CHANGES] += 1
        self.is_free = False
        return count

    def clear(self) -> None:
        """Take the batch off the board."""
        self._words[COUNT] = 0
        self.is_free = True


class Slot:
    """All that one job process shows.

    Attributes:
        words: counters and times, for stores without a call in between.
        batches: places for what is fetched.
    """

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self.words = memory[:WORDS_BYTES].cast("Q")
        starts = range(BATCHES_AT, BATCHES_AT + BATCHES * BATCH_BYTES, BATCH_BYTES)
        self.batches = [BatchArea(memory[start : start + BATCH_BYTES], self.words) for start in starts]

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
        """Return a place for a batch, if there is one."""
        return next((batch for batch in self.batches if batch.is_free), None)

    @property
    def free_batches(self) -> int:
        """How many places there are."""
        return sum(batch.is_free for batch in self.batches)

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

    def running(self, kind: int, since_ns: int) -> None:
        """Note what runs."""
        self.words[KIND], self.words[SINCE_NS] = kind, since_ns

    def expect_retries(self, due_ms: int) -> None:
        """Note until when retries that this process caused will become due; monotonic milliseconds."""
        self.words[RETRIES_DUE_MS] = max(self.words[RETRIES_DUE_MS], due_ms)

    @property
    def retries_due_ms(self) -> int:
        """When all retries that its processes caused are due; monotonic milliseconds, 0 if there are none."""
        return self.words[RETRIES_DUE_MS]

    # The others' side

    def clear(self) -> None:
        """Take everything off the board."""
        for batch in self.batches:
            batch.clear()
        for word in (SENT, SETTLED, REVOKED, SINCE_NS, KIND, IDENTITY_BYTES):
            self.words[word] = 0

    def copy(self) -> bytes:
        """Return the slot's bytes as they are: for a process that has died."""
        return bytes(self._memory)

    def read(self) -> Holding:
        """Return what a living process holds, read between two changes."""
        for _ in range(_READ_TRIES):
            before = self.words[CHANGES]
            data = self.copy()
            if not before % 2 and self.words[CHANGES] == before:
                return read_holding(data)
            time.sleep(_READ_PAUSE_SECONDS)
        return Holding(Identity(), range(0), 0, "", [])  # stopped in the middle; asked again soon

    def revoke_dequeues(self) -> None:
        """Forbid the owner to start jobs of replies that it has not read."""
        self.words[REVOKED] = self.words[SENT]
