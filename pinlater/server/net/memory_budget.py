"""The memory of calls that come, and of answers that go: so much for all connections together.

Each connection may have a little for nothing. What is more has to fit into the room. Calls wait for that, unread:
their bytes stay at the peer. Answers are there already, so the peer that has not read its own for longest makes room,
by losing its connection.
"""

from __future__ import annotations

from typing import Protocol

ROOM_BYTES = 48 * 1024 * 1024
FREE_BYTES = 64 * 1024


class Guest(Protocol):
    """A connection, as far as the room cares."""

    def admitted(self) -> None:
        """Go on: there is room for what was asked for."""

    def abort(self, reason: str) -> None:
        """Go: others need the room."""


class CallRoom:
    """Room of calls that are not answered yet.

    Args:
        most_bytes: of all; one guest may have more if it is the only one.
    """

    def __init__(self, most_bytes: int = ROOM_BYTES) -> None:
        self._most_bytes = most_bytes
        self._used = 0
        self._held: dict[Guest, int] = {}
        self._waiting: dict[Guest, int] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._waiting)

    def holds(self, guest: Guest) -> bool:
        """Whether a guest has some of it."""
        return guest in self._held

    def ask(self, guest: Guest, count: int) -> bool:
        """Let a guest have so many bytes in all; False: not yet, it is admitted later.

        What wants least goes first: calls of usual size are not to wait behind giants, who may never come to their end.
        """
        had = self._held.get(guest, 0)
        if count > had and not self._fits(count - had, alone=self._used == had):
            self._waiting[guest] = count
            return False
        self._waiting.pop(guest, None)
        self._let(guest, count)
        if count < had:
            self._admit()
        return True

    def leave(self, guest: Guest) -> None:
        """Take back what a guest has, and forget what it asked for."""
        self._waiting.pop(guest, None)
        self._let(guest, 0)
        self._admit()

    def _fits(self, more: int, *, alone: bool) -> bool:
        return alone or self._used + more <= self._most_bytes

    def _let(self, guest: Guest, count: int) -> None:
        self._used += count - self._held.pop(guest, 0)
        if count:
            self._held[guest] = count

    def _admit(self) -> None:
        for guest, count in sorted(self._waiting.items(), key=lambda item: item[1] - self._held.get(item[0], 0)):
            had = self._held.get(guest, 0)
            if not self._fits(count - had, alone=self._used == had):
                return
            del self._waiting[guest]
            self._let(guest, count)
            guest.admitted()


class AnswerRoom:
    """Answers that their peers have not read yet.

    Args:
        most_bytes: of all; one that is alone may have more.
    """

    def __init__(self, most_bytes: int = ROOM_BYTES) -> None:
        self._most_bytes = most_bytes
        self._unread: dict[Guest, int] = {}  # in the order of their last sign of life

    def put(self, guest: Guest, count: int) -> None:
        """Note that so many bytes wait for a guest to read them."""
        self._unread.pop(guest, None)
        self._unread[guest] = count
        while len(self._unread) > 1 and sum(self._unread.values()) > self._most_bytes:
            slowest = next(iter(self._unread))
            del self._unread[slowest]
            slowest.abort("the client does not read its answers, and others wait for the room")

    def take(self, guest: Guest) -> None:
        """Note that a guest has read them, or is gone."""
        self._unread.pop(guest, None)
