"""Summaries of jobs for lists: class and arguments, from the beginnings of their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pinlater.cli.batches import batches
from pinlater.model.body_summary import SUMMARY_BYTES, BodySummary, summarize

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.model.jobs import JobInfo

_AT_ONCE = 100
_MOST_KEPT = 20_000
_NOTHING = BodySummary("", "")


class Summaries:
    """Summarizes jobs, each once; of a body that is not at hand, only the beginning is fetched.

    Args:
        client: client of the server.
        most: maximum number of characters of the arguments.
    """

    def __init__(self, client: Client, most: int = 100) -> None:
        self._client = client
        self._most = most
        self._known: dict[str, BodySummary] = {}

    def of(self, jobs: Iterable[JobInfo]) -> dict[str, BodySummary]:
        """Return the summaries of jobs by descriptor; empty ones for jobs that no longer exist."""
        wanted = {info.descriptor: info.body for info in jobs}
        for name, body in wanted.items():
            if body is not None and name not in self._known:
                self._known[name] = summarize(body, self._most)
        for part in batches([name for name in wanted if name not in self._known], _AT_ONCE):
            found = self._client.lookup(part, include_body=True, max_body_bytes=SUMMARY_BYTES)
            for name in part:
                self._known[name] = summarize(found[name].body, self._most) if name in found else _NOTHING
        summaries = {name: self._known[name] for name in wanted}
        for name in list(self._known)[:-_MOST_KEPT]:
            del self._known[name]
        return summaries
