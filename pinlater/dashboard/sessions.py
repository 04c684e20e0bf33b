"""Login sessions, in memory, and rate-limited password checks."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from pinlater.model.password import verify_password

IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3600.0
MOST_SESSIONS = 500
MAX_PASSWORD_CHARACTERS = 1024

_FIRST_PENALTY_SECONDS = 1.0
_LONGEST_PENALTY_SECONDS = 60.0
_MOST_PEERS = 1000
_MOST_WAITING = 4
_RESERVED_PLACES = 4
"""Extra places for addresses that have logged in before: guessing must not lock operators out."""


class Role(StrEnum):
    """Permissions of a user."""

    ADMIN = "admin"
    READER = "reader"


@dataclass(slots=True)
class LoginSession:
    """Session of a logged-in user.

    Attributes:
        role: permissions.
        csrf: token that every change has to carry.
        started: monotonic seconds of the login.
        used: monotonic seconds of the last action; pages that refresh themselves do not count.
    """

    role: Role
    started: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def mark(self) -> str:
        """Identifies the session to pages without revealing its token."""
        return hashlib.sha256(self.csrf.encode()).hexdigest()[:16]


class Sessions:
    """Open sessions; the oldest ends when there are too many.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: OrderedDict[str, LoginSession] = OrderedDict()

    def begin(self, role: Role) -> str:
        """Open a session and return its token."""
        while len(self._open) >= MOST_SESSIONS:
            self._open.popitem(last=False)
        token, now = secrets.token_urlsafe(32), self._clock()
        self._open[token] = LoginSession(role, now, now)
        return token

    def find(self, token: str | None, *, is_used: bool) -> LoginSession | None:
        """Return an open session; None if there is none.

        Args:
            token: token of the session.
            is_used: whether the user acted, which restarts the idle time.
        """
        session = self._open.get(token or "")
        if session is None or token is None:
            return None
        now = self._clock()
        if now - session.used > IDLE_SECONDS or now - session.started > LONGEST_SECONDS:
            del self._open[token]
            return None
        if is_used:
            session.used = now
        return session

    def end(self, token: str | None) -> None:
        """Close a session if it is open."""
        self._open.pop(token or "", None)


class TooManyGuesses(Exception):
    """Too many wrong passwords in a short time.

    Attributes:
        seconds: whole seconds to wait before the next attempt.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = math.ceil(seconds)
        super().__init__(f"too many wrong passwords; try again in {self.seconds} s")


class PasswordChecker:
    """Checks passwords one at a time, since each check deliberately takes half a second and 128 MiB.

    Args:
        hashes: role -> hash of its password.
        clock: monotonic seconds.
    """

    def __init__(self, hashes: dict[Role, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._hashes = hashes
        self._clock = clock
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0
        self._penalties: OrderedDict[str, tuple[float, float]] = OrderedDict()  # peer -> end and length in seconds
        self._known: OrderedDict[str, None] = OrderedDict()  # peers that have logged in, the latest last

    async def role_of(self, password: str, peer: str) -> Role | None:
        """Return the role of a password; None if it is wrong.

        Raises:
            TooManyGuesses: this address has just sent a wrong password, or too many checks are waiting.
        """
        self._refuse_penalized(peer)
        if self._waiting >= _MOST_WAITING + (_RESERVED_PLACES if peer in self._known else 0):
            raise TooManyGuesses(_FIRST_PENALTY_SECONDS)
        self._waiting += 1
        try:
            async with self._turn:
                self._refuse_penalized(peer)  # a guess that was sent at the same time may have been wrong
                role = await asyncio.to_thread(self._check, password[:MAX_PASSWORD_CHARACTERS])
                self._record(peer, is_right=role is not None)
        finally:
            self._waiting -= 1
        return role

    def _refuse_penalized(self, peer: str) -> None:
        left = self._penalties.get(peer, (0.0, 0.0))[0] - self._clock()
        if left > 0:
            raise TooManyGuesses(left)

    def _check(self, password: str) -> Role | None:
        return next((role for role, stored in self._hashes.items() if verify_password(password, stored)), None)

    def _record(self, peer: str, *, is_right: bool) -> None:
        _, last = self._penalties.pop(peer, (0.0, _FIRST_PENALTY_SECONDS / 2))
        if is_right:
            self._known[peer] = None
            self._known.move_to_end(peer)
            if len(self._known) > _MOST_PEERS:
                self._known.popitem(last=False)
            return
        penalty = min(last * 2, _LONGEST_PENALTY_SECONDS)
        self._penalties[peer] = (self._clock() + penalty, penalty)
        if len(self._penalties) > _MOST_PEERS:
            self._penalties.popitem(last=False)
