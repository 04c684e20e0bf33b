"""Selection of jobs of a queue by filter, read page by page."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pinlater.cli.batches import BATCH_SIZE, batches, progress_bar
from pinlater.cli.filters import Filter
from pinlater.cli.retrying import knows_retrying
from pinlater.client.store_time import now_ms_at
from pinlater.errors import PriorityNotSupported, ProtocolError, UnknownError
from pinlater.model.body_patterns import class_pattern
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.model.jobs import JobInfo, Page

_MOST_PRIORITIES = 127
_BODIES_AT_ONCE = BATCH_SIZE // 10  # they may be large


class JobSelection(NamedTuple):
    """Selected jobs of a queue.

    Attributes:
        queue: name of the queue.
        state: state of the jobs.
        job_filter: conditions that the jobs have to match.
        future: for PENDING jobs: only due ones (False) or only those not due yet (True); None for both.
        body_regex: regular expression that the server searches the bodies for.
        retrying: for PENDING jobs: only those whose last attempt failed, due or not (True).
        key: for PENDING and IN_PROGRESS jobs: only those with this key, shared or unique, due or not.
    """

    queue: str
    state: JobState
    job_filter: Filter
    future: bool | None = None
    body_regex: str | None = None
    retrying: bool | None = None
    key: str | None = None

    def count(self, client: Client) -> int:
        """Count the jobs on the server, up to its ``COUNT_LIMIT``, ignoring conditions that only the tool checks.

        If there are so many bodies that the server gives up on a regular expression, read the jobs instead.
        """
        try:
            return self.count_at(client, self.job_filter.priority)
        except UnknownError:
            if self.body_regex is None:
                raise
            return sum(len(page.jobs) for page in self._pages(client))

    def count_at(self, client: Client, priority: int | None) -> int:
        """Count the jobs of a priority level, or of all levels if None, like ``count`` but without reading them."""
        return sum(
            client.count(
                self.queue,
                self.state,
                priority=priority,
                future=future,
                body_regex=self.body_regex,
                retrying=self.retrying,
                failure_group=self.job_filter.group,
            )
            for future in self._futures
        )

    def counts(self, client: Client) -> dict[int, int]:
        """Count the jobs by priority level, for all levels or for the selected one.

        Raises:
            PriorityNotSupported: the server does not have the selected level.
        """
        if self.job_filter.priority is not None:
            return {self.job_filter.priority: self.count(client)}
        found: dict[int, int] = {}
        with contextlib.suppress(PriorityNotSupported):
            for priority in range(1, _MOST_PRIORITIES + 1):
                found[priority] = self.count_at(client, priority)
        return found

    def find(self, client: Client, limit: int | None) -> list[str]:
        """Return up to ``limit`` descriptors (None for all), those due latest first; show a progress bar."""
        found: list[str] = []
        try:
            with self._progress_bar(client) as progress:
                for page in self._pages(client):
                    found += [info.descriptor for info in self._matching(client, page.jobs)]
                    progress.update(_looked_at(page))
                    if limit is not None and len(found) >= limit:
                        break
        except KeyboardInterrupt as error:
            error.add_note("nothing was changed")
            raise
        return found[:limit]

    def find_in_order(self, client: Client, limit: int | None) -> list[str]:
        """Return the descriptors of ``find``, earliest due first; jobs of an ordered key in the order they run."""
        found: list[str] = []
        for future in self._futures:  # jobs that wait for their key count as not due
            rest = None if limit is None else limit - len(found)
            found += self._replace(future=future).find(client, rest)[::-1]
        return found

    def pages(self, client: Client, page_size: int = BATCH_SIZE) -> Iterator[list[JobInfo]]:
        """Yield the jobs, page by page, without bodies; on a terminal, show how many were looked at in a search."""
        looked_at = 0
        for page in self._pages(client, page_size):
            yield self._matching(client, page.jobs)
            looked_at += _looked_at(page)
            is_search = page.looked_at is not None or not self.job_filter.is_for_server
            if is_search and sys.stderr.isatty():
                click.echo(f"looked at {looked_at:,} jobs\r", nl=False, err=True)

    def _progress_bar(self, client: Client) -> Any:
        """Return a progress bar for the jobs that are read, or whose bodies are searched."""
        return progress_bar(self._replace(body_regex=None).count(client), f"reading {self.queue}")

    @property
    def _futures(self) -> Sequence[bool]:
        if self.state is not JobState.PENDING or self.retrying or self.job_filter.group is not None:
            return (False,)
        return (False, True) if self.future is None else (self.future,)

    def _pages(self, client: Client, page_size: int = BATCH_SIZE) -> Iterator[Page]:
        """Yield pages of the jobs, and of others that only the tool can filter out.

        For a class, the server searches the bodies first, if it can; the tool then never reads most jobs.
        """
        if self.body_regex is None and self.job_filter.job is not None and knows_retrying(client, self.queue):
            pages, first = self._read(client, page_size, class_pattern(self.job_filter.job)), None
            with contextlib.suppress(UnknownError):  # servers of earlier versions give up on many bodies
                first = next(pages)
            if first is not None and first.looked_at is not None:
                yield first
                yield from pages
                return
        yield from self._read(client, page_size, self.body_regex)

    def _read(self, client: Client, page_size: int, body_regex: str | None) -> Iterator[Page]:
        for future in self._futures:
            continuation = None
            while True:
                page = client.scan(
                    self.queue,
                    self.state,
                    priority=self.job_filter.priority,
                    future=future,
                    limit=page_size,
                    body_regex=body_regex,
                    continuation=continuation,
                    retrying=self.retrying,
                    failure_group=self.job_filter.group,
                    key=self.key,
                )
                if not all(self._has_key(job) for job in page.jobs):
                    raise ProtocolError("this server cannot find jobs by key; upgrade it for --key")
                yield page
                continuation = page.continuation
                if continuation is None:
                    break

    def _has_key(self, job: JobInfo) -> bool:
        return self.key is None or self.key in {job.unique, None if job.key is None else job.key.text}

    def _matching(self, client: Client, page: list[JobInfo]) -> list[JobInfo]:
        now_ms = now_ms_at(client) if self.job_filter.has_age else 0
        verdicts = {info.descriptor: self.job_filter.matches(info, now_ms) for info in page}
        open_ones = [name for name, verdict in verdicts.items() if verdict is None]
        for part in batches(open_ones, _BODIES_AT_ONCE):
            bodies = client.lookup(part, include_body=True)
            verdicts |= {name: name in bodies and self.job_filter.matches_body(bodies[name]) for name in part}
        return [info for info in page if verdicts[info.descriptor]]


def _looked_at(page: Page) -> int:
    return len(page.jobs) if page.looked_at is None else page.looked_at
