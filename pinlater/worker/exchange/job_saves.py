"""The order of one job's saves: a server never gets an older body after a newer one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from pinlater.worker.exchange.errand import Errand


class JobSaves:
    """One save is on its way, at most, and one waits for its end: the latest.

    A body is encoded when it begins to wait, so it holds all that those before it held; they are not sent any more.

    Attributes:
        unheard: the last save that nobody waited for, and what came of it.
    """

    __slots__ = ("_is_over", "_lock", "_on_its_way", "_waiting", "unheard")

    def __init__(self) -> None:
        self.unheard: tuple[Errand, Any] | None = None
        self._lock = Lock()
        self._waiting: Errand | None = None
        self._on_its_way = self._is_over = False

    # In the threads of the job

    def put(self, encode: Callable[[], Errand]) -> tuple[Errand, bool]:
        """Let a save wait for its turn; return the one that does, and whether that is now.

        Args:
            encode: makes the save; nobody else encodes meanwhile.
        """
        with self._lock:
            new, waiting = encode(), self._waiting
            if waiting is not None:
                waiting.arguments, waiting.deadline = new.arguments, max(waiting.deadline, new.deadline)
                return waiting, False
            self._waiting = new
            return new, not self._on_its_way

    # In the main thread

    def send(self, errand: Errand) -> bool:
        """Note that a save is about to be sent; return False if it was, or if a newer one was instead."""
        with self._lock:
            if self._waiting is not errand:
                return False
            self._waiting, self._on_its_way = None, True
            return True

    def answered(self) -> Errand | None:
        """Note the end of the one that was on its way; return the one whose turn it is now."""
        with self._lock:
            self._on_its_way = False
            return self._waiting

    def failed(self, errand: Errand) -> Errand | None:
        """Note that the one on its way was not taken; return the one to send later: it, or a newer one in its place.

        None: the job has ended, and what it saved is told with its end.
        """
        with self._lock:
            self._on_its_way = False
            if self._is_over:
                return None
            if self._waiting is None:
                self._waiting = errand
            else:
                self._waiting.replace(errand)
            return self._waiting

    def end(self) -> Errand | None:
        """Note that the job has ended; return the save that still waits."""
        with self._lock:
            self._is_over = True
            return self._waiting
