"""Reads messages of a running job page by page: while the job handles one, the server reads the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pinlater.model.messages import ReceivedMessage
from pinlater.worker.session.saver import Saver

LEAST_PAGE = 100
"""After a full page of at least this many messages, the next page is requested ahead: it is likely to be wanted."""


class _PageAhead(NamedTuple):
    """A page that was requested before it is needed.

    Attributes:
        name: name of its messages.
        after: number of the last message before it.
        limit: most messages in it.
        wait: waits for them; returns none if they do not come.
    """

    name: str
    after: int
    limit: int
    wait: Callable[[], Sequence[ReceivedMessage]]


class MessagePages:
    """Reads the messages of one attempt, in one thread at a time.

    Args:
        saver: makes the calls.
        descriptor: descriptor of the job.
    """

    def __init__(self, saver: Saver, descriptor: str) -> None:
        self._saver = saver
        self._descriptor = descriptor
        self._ahead: _PageAhead | None = None

    def read(self, name: str, after: int, limit: int) -> Sequence[ReceivedMessage]:
        """Read messages; see ``MessageLink``."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (name, after):
            if ahead.limit == limit:
                self._ask(name, after + limit, limit)
            if found := ahead.wait()[:limit]:
                return found
        found = self._saver.read_messages(self._descriptor, name, after, limit)
        if len(found) == limit >= LEAST_PAGE:
            self._ask(name, after + limit, limit)
        return found

    def _ask(self, name: str, after: int, limit: int) -> None:
        wait = self._saver.ask_messages(self._descriptor, name, after, limit)
        self._ahead = _PageAhead(name, after, limit, wait)
