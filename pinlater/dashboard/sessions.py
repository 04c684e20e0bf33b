"""Who has logged in: sessions in memory, and the pace of guessing passwords."""

from __future__ import annotations

import asyncio
import hashlib
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
_PLACES_KEPT = 4
"""More may wait if somebody has logged in from their address before: a flood of guesses is to keep no operator out."""


class Role(StrEnum):
    """What somebody may do."""

    ADMIN = "admin"
    READER = "reader"


@dataclass(slots=True)
class Session:
    """One log-in.

    Attributes:
        role: what it allows.
        csrf: every change has to carry it.
        started: monotonic seconds.
        used: monotonic seconds of the last thing that a person did; pages that refresh themselves do not count.
    """

    role: Role
    started: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def mark(self) -> str:
        """Tells pages of this session from those of others, and tells nothing of its token."""
        return hashlib.sha256(self.csrf.encode()).hexdigest()[:16]


class Sessions:
    """The sessions that are open; the oldest ends when there are too many.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()

    def begin(self, role: Role) -> str:
        """Open a session; return its token."""
        while len(self._open) >= MOST_SESSIONS:
            self._open.popitem(last=False)
        token, now = secrets.token_urlsafe(32), self._clock()
        self._open[token] = Session(role, now, now)
        return token

    def find(self, token: str | None, *, is_used: bool) -> Session | None:
        """Return an open session.

        Args:
            token: as ``begin`` returned it.
            is_used: a person does something; otherwise the time until it ends goes on.
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
        """Close a session, if it is open."""
        self._open.pop(token or "", None)


class TooManyGuesses(Exception):
    """Passwords are guessed too fast.

    Attributes:
        seconds: to wait before the next one.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many wrong passwords; try again in {seconds:.0f} s")
        self.seconds = seconds


class Doorkeeper:
    """Checks passwords, one at a time, since each takes half a second and 128 MiB, on purpose.

    Args:
        hashes: of each role's password.
        clock: monotonic seconds.
    """

    def __init__(self, hashes: dict[Role, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._hashes = hashes
        self._clock = clock
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0
        self._penalties: OrderedDict[str, tuple[float, float]] = OrderedDict()  # peer -> until when, how long
        self._known: OrderedDict[str, None] = OrderedDict()  # peers that knew a password, the latest last

    async def role_of(self, password: str, peer: str) -> Role | None:
        """Return the role that a password opens; None if it is wrong.

        Raises:
            TooManyGuesses: this peer was wrong just now, or too many are at it.
        """
        left = self._penalties.get(peer, (0.0, 0.0))[0] - self._clock()
        if left > 0:
            raise TooManyGuesses(left)
        if self._waiting >= _MOST_WAITING + (_PLACES_KEPT if peer in self._known else 0):
            raise TooManyGuesses(_FIRST_PENALTY_SECONDS)
        self._waiting += 1
        try:
            async with self._turn:
                role = await asyncio.to_thread(self._check, password[:MAX_PASSWORD_CHARACTERS])
        finally:
            self._waiting -= 1
        self._note(peer, is_right=role is not None)
        return role

    def _check(self, password: str) -> Role | None:
        return next((role for role, stored in self._hashes.items() if verify_password(password, stored)), None)

    def _note(self, peer: str, *, is_right: bool) -> None:
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
