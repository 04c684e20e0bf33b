"""Which jobs changed between two looks, found out with a bounded number of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pinlater.client.tool.bulk import batches
from pinlater.errors import QueueNotFound
from pinlater.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.client.records import JobInfo

PAGE = 100
"""Jobs of each state that a look at a queue begins with: those that are, or were, due latest."""

MOST_FOLLOWED = 1000
"""Jobs of a queue whose end is waited for; of more, the latest."""

_MOST_KNOWN = 20_000
_ASKED_AT_ONCE = 500


class Change(NamedTuple):
    """A job that has another state than at the last look; ``before`` is None if it was not known."""

    info: JobInfo
    before: JobState | None


class Changes:
    """Looks at queues again and again.

    New jobs are found by a page of each state. Those that have not ended are asked for by name until they have.

    Args:
        client: to ask with.
        queues: where to look; none is all.

    Attributes:
        overrun: queues where the last look could not see everything.
    """

    def __init__(self, client: Client, queues: Sequence[str]) -> None:
        self._client = client
        self._queues = queues
        self._known: dict[str, dict[str, tuple[JobState, int]]] = {}
        self.overrun: list[str] = []

    def look(self) -> Iterator[Change]:
        """Yield what has changed since the last look, queue by queue; at the first one, nothing has."""
        self.overrun = []
        names = self._queues or sorted(self._client.queue_names())
        for queue in names:
            try:
                yield from self._look_at(queue)
            except QueueNotFound:
                if self._queues:
                    raise

    def _look_at(self, queue: str) -> Iterator[Change]:
        is_first = queue not in self._known
        known = self._known.setdefault(queue, {})
        found: dict[str, JobInfo] = {}
        for state, future in _PLACES:
            page = self._client.scan(queue, state, future=future, limit=PAGE).jobs
            new = [info for info in page if info.descriptor not in known]
            if len(new) == PAGE and not is_first:
                self.overrun.append(queue)
            found |= {info.descriptor: info for info in page}
        found |= self._asked_by_name(known, found)
        for info in sorted(found.values(), key=lambda info: info.updated_at_ms or 0):
            seen = known.get(info.descriptor)
            if seen != _seen(info):
                known.pop(info.descriptor, None)  # so that the latest stand last
                known[info.descriptor] = _seen(info)
                if not is_first and (seen is None or seen[0] != info.state or info.state != JobState.IN_PROGRESS):
                    yield Change(info, None if seen is None else seen[0])
        for name in list(known)[:-_MOST_KNOWN]:
            del known[name]

    def _asked_by_name(self, known: dict[str, tuple[JobState, int]], found: dict[str, JobInfo]) -> dict[str, JobInfo]:
        open_ones = [name for name, (state, _) in known.items() if state in _OPEN and name not in found]
        answers: dict[str, JobInfo] = {}
        for part in batches(open_ones[-MOST_FOLLOWED:], _ASKED_AT_ONCE):
            here = self._client.lookup(part)
            answers |= here
            for name in part:
                if name not in here:  # deleted
                    del known[name]
        return answers


_OPEN = frozenset({JobState.PENDING, JobState.IN_PROGRESS})
_PLACES = (
    (JobState.PENDING, False),
    (JobState.PENDING, True),
    (JobState.IN_PROGRESS, False),
    (JobState.IN_PROGRESS, True),
    (JobState.SUCCEEDED, False),
    (JobState.FAILED, False),
)


def _seen(info: JobInfo) -> tuple[JobState, int]:
    return info.state, info.attempts_remaining
