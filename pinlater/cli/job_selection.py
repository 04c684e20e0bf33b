"""Jobs of a queue that a filter lets pass, found page by page."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pinlater.cli.bulk_action import AT_ONCE, bar, batches
from pinlater.cli.filters import Filter
from pinlater.errors import PriorityNotSupported
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.model.records import JobInfo

_MOST_PRIORITIES = 127
_BODIES_AT_ONCE = AT_ONCE // 10  # they may be large


class Wanted(NamedTuple):
    """Which jobs.

    Attributes:
        queue: of this queue.
        state: in this state.
        which: what they have to be like.
        future: of PENDING: only those due (False) or not due yet (True); None: both.
        body_regex: the server is to look for it in their bodies.
    """

    queue: str
    state: JobState
    which: Filter
    future: bool | None = None
    body_regex: str | None = None

    def count(self, client: Client) -> int:
        """Return how many there are, as far as the server can tell; no more than it counts."""
        return self.count_at(client, self.which.priority)

    def count_at(self, client: Client, priority: int | None) -> int:
        """Return how many there are of a priority level, None: of all; no more than the server counts."""
        return sum(
            client.count(self.queue, self.state, priority=priority, future=future, body_regex=self.body_regex)
            for future in self._futures
        )

    def counts(self, client: Client) -> dict[int, int]:
        """Return how many there are of each priority level that the server has, or of the one that is wanted.

        Raises:
            PriorityNotSupported: it does not have that one.
        """
        if self.which.priority is not None:
            return {self.which.priority: self.count(client)}
        found: dict[int, int] = {}
        with contextlib.suppress(PriorityNotSupported):
            for priority in range(1, _MOST_PRIORITIES + 1):
                found[priority] = self.count_at(client, priority)
        return found

    def find(self, client: Client, limit: int | None) -> list[str]:
        """Return the descriptors of up to ``limit`` jobs (None: all), those due latest first; shows how far it is."""
        found: list[str] = []
        try:
            with bar(self.count(client), f"looking through {self.queue}") as look:
                for page in self._pages(client):
                    found += [info.descriptor for info in self._passing(client, page)]
                    look.update(len(page))
                    if limit is not None and len(found) >= limit:
                        break
        except KeyboardInterrupt as error:
            error.add_note("nothing was changed")
            raise
        return found[:limit]

    def all(self, client: Client, page_size: int = AT_ONCE) -> Iterator[JobInfo]:
        """Yield the jobs, without bodies, as they are found."""
        for page in self._pages(client, page_size):
            yield from self._passing(client, page)

    @property
    def _futures(self) -> Sequence[bool]:
        if self.state is not JobState.PENDING:
            return (False,)
        return (False, True) if self.future is None else (self.future,)

    def _pages(self, client: Client, page_size: int = AT_ONCE) -> Iterator[list[JobInfo]]:
        for future in self._futures:
            jobs = client.scan_all(
                self.queue,
                self.state,
                priority=self.which.priority,
                future=future,
                page_size=page_size,
                body_regex=self.body_regex,
            )
            yield from batches(jobs, page_size)

    def _passing(self, client: Client, page: list[JobInfo]) -> list[JobInfo]:
        now_ms = time.time() * 1000
        verdicts = {info.descriptor: self.which.passes(info, now_ms) for info in page}
        open_ones = [name for name, verdict in verdicts.items() if verdict is None]
        for part in batches(open_ones, _BODIES_AT_ONCE):
            bodies = client.lookup(part, include_body=True)
            verdicts |= {name: name in bodies and self.which.passes_with_body(bodies[name]) for name in part}
        return [info for info in page if verdicts[info.descriptor]]
