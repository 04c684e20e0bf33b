"""The order of one job's saves: a server never gets an older body after a newer one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from pinlater.worker.session.pending_call import PendingCall


class JobSaves:
    """Queues one job's saves: at most one is in flight, and only the latest one waits.

    A body is encoded when it begins to wait, so it holds everything in those before it, which are not sent any more.

    Attributes:
        unchecked: the last save whose job did not wait for its reply, and a future of that reply.
    """

    __slots__ = ("_is_over", "_lock", "_on_its_way", "_waiting", "unchecked")

    def __init__(self) -> None:
        self.unchecked: tuple[PendingCall, Any] | None = None
        self._lock = Lock()
        self._waiting: PendingCall | None = None
        self._on_its_way = self._is_over = False

    # In the threads of the job

    def put(self, encode: Callable[[], PendingCall]) -> tuple[PendingCall, bool]:
        """Add a save; return the waiting one and whether it can be sent at once.

        Args:
            encode: makes the save; called under the lock, so that a newer body is never encoded before an older one.
        """
        with self._lock:
            new, waiting = encode(), self._waiting
            if waiting is not None:
                waiting.call, waiting.deadline = new.call, max(waiting.deadline, new.deadline)
                waiting.blocks_others |= new.blocks_others
                return waiting, False
            self._waiting = new
            return new, not self._on_its_way

    # In the main thread

    def send(self, pending: PendingCall) -> bool:
        """Take the waiting save for sending; return False if it, or a newer one, was sent before."""
        with self._lock:
            if self._waiting is not pending:
                return False
            self._waiting, self._on_its_way = None, True
            return True

    def answered(self) -> PendingCall | None:
        """Record the reply to the save in flight; return the one to send next."""
        with self._lock:
            self._on_its_way = False
            return self._waiting

    def failed(self, pending: PendingCall) -> PendingCall | None:
        """Record that the save in flight failed; return the one to send later: it or a newer one.

        None: the job has ended, and its outcome carries what it saved.
        """
        with self._lock:
            self._on_its_way = False
            if self._is_over:
                return None
            if self._waiting is None:
                self._waiting = pending
            else:
                self._waiting.replace(pending)
            return self._waiting

    def end(self) -> PendingCall | None:
        """Record that the job has ended; return the save that still waits."""
        with self._lock:
            self._is_over = True
            return self._waiting
