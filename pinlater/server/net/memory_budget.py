"""Limit the memory of received calls and of unread replies, over all connections together.

A little is free for each connection; what exceeds it must fit into the budget. Calls that wait for memory are not read,
so their bytes stay with the client. Replies exist already, so the client that has read nothing for longest is dropped.
"""

from __future__ import annotations

from typing import Protocol

BUDGET_BYTES = 48 * 1024 * 1024
UNBUDGETED_BYTES = 64 * 1024


class BudgetUser(Protocol):
    """A connection that uses the budget."""

    def on_budget_granted(self) -> None:
        """Continue: the requested memory was granted."""

    def abort(self, reason: str) -> None:
        """Drop the connection: others need its memory."""


class CallBudget:
    """Limits the memory of calls that are not answered yet.

    Args:
        most_bytes: limit for all calls together; a single user may exceed it while it is the only one.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._used = 0
        self._held: dict[BudgetUser, int] = {}
        self._waiting: dict[BudgetUser, int] = {}

    @property
    def has_waiting(self) -> bool:
        """Whether anyone waits for memory."""
        return bool(self._waiting)

    def holds(self, user: BudgetUser) -> bool:
        """Return whether a user holds memory of the budget."""
        return user in self._held

    def request(self, user: BudgetUser, count: int) -> bool:
        """Set how many bytes a user holds in all; return False if it must wait for ``on_budget_granted``.

        The smallest request is granted first: calls of usual size must not wait behind huge ones that may never finish.
        """
        had = self._held.get(user, 0)
        if count > had and not self._fits(count - had, alone=self._used == had):
            self._waiting[user] = count
            return False
        self._waiting.pop(user, None)
        self._set_held(user, count)
        if count < had:
            self._grant_waiting()
        return True

    def release(self, user: BudgetUser, *, all_but: int = 0) -> None:
        """Free the memory of a user except ``all_but`` bytes, and drop its request."""
        self._waiting.pop(user, None)
        self._set_held(user, min(all_but, self._held.get(user, 0)))
        self._grant_waiting()

    def _fits(self, more: int, *, alone: bool) -> bool:
        return alone or self._used + more <= self._most_bytes

    def _set_held(self, user: BudgetUser, count: int) -> None:
        self._used += count - self._held.pop(user, 0)
        if count:
            self._held[user] = count

    def _grant_waiting(self) -> None:
        for user, count in sorted(self._waiting.items(), key=lambda item: item[1] - self._held.get(item[0], 0)):
            had = self._held.get(user, 0)
            if not self._fits(count - had, alone=self._used == had):
                return
            del self._waiting[user]
            self._set_held(user, count)
            user.on_budget_granted()


class AnswerBudget:
    """Limits the memory of replies that clients have not read yet.

    Args:
        most_bytes: limit for all replies together; a single user may exceed it while it is the only one.
    """

    def __init__(self, most_bytes: int = BUDGET_BYTES) -> None:
        self._most_bytes = most_bytes
        self._unread: dict[BudgetUser, int] = {}  # ordered by when they last read something

    def record_unread(self, user: BudgetUser, count: int) -> None:
        """Record how many bytes a user has not read; drop the slowest users if the budget is exceeded."""
        self._unread.pop(user, None)
        self._unread[user] = count
        while len(self._unread) > 1 and sum(self._unread.values()) > self._most_bytes:
            slowest = next(iter(self._unread))
            del self._unread[slowest]
            slowest.abort("the client does not read its replies, and others need their memory")

    def release(self, user: BudgetUser) -> None:
        """Free the memory of a user that has read everything, or is gone."""
        self._unread.pop(user, None)
