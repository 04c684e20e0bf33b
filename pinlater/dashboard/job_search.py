"""Search of all queues: failure groups, classes, jobs by key or status, and jobs by the text in their bodies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pinlater.dashboard.app_state import AppState
from pinlater.dashboard.count_cache import DISPLAY_STATES, DISPLAY_STATES_BY_NAME, OPEN_STATES, DisplayState
from pinlater.dashboard.job_query import MAX_KEY_CHARACTERS, JobQuery, from_text
from pinlater.dashboard.job_rows import JobRow, read_rows
from pinlater.errors import QueueNotFound, ServerError
from pinlater.model.body_patterns import argument_pattern
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobInfo

BODY_SECONDS = 8.0
KEY_SECONDS = 3.0
KEY_JOBS = 200
"""Jobs of each state of a queue whose keys and statuses are searched."""

_PER_STATE = 10
_MOST_FOUND = 100
_MOST_GROUPS, _MOST_CLASSES = 20, 20
_STATES_OF_KEYS = DISPLAY_STATES_BY_NAME["pending"], DISPLAY_STATES_BY_NAME["running"]
_PREFIX = re.compile(r"(class|error|key|text):\s*(.*)", re.DOTALL)


class Wanted(NamedTuple):
    """What is searched for; a prefix ``class:``, ``error:``, ``key:`` or ``text:`` narrows the search.

    Attributes:
        text: the text without the prefix.
        kind: the word before the colon; empty to search for all kinds.
    """

    text: str
    kind: str = ""

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Split the prefix off a text."""
        match = _PREFIX.fullmatch(text)
        return cls(match[2], match[1]) if match and match[2] else cls(text)

    def has(self, kind: str) -> bool:
        """Tell whether this kind is searched for."""
        return self.kind in {"", kind}


class FoundJobs(NamedTuple):
    """Jobs of a queue in one state.

    Attributes:
        queue: name of the queue.
        display_state: state of the jobs.
        rows: some of the jobs.
        link: path of the list of all these jobs; empty if there is none, or ``rows`` are all.
        left_out: number of jobs that were found as well, but are neither in ``rows`` nor behind a link.
    """

    queue: str
    display_state: DisplayState
    rows: list[JobRow]
    link: str
    left_out: int = 0


class JobSearchResult(NamedTuple):
    """Jobs that were found, and queues that were not searched completely.

    Attributes:
        found: the jobs.
        unsearched: queue that was not searched completely -> path where the search of bodies goes on, or empty.
        unasked: queues that were not asked for jobs with the key, because time ran out.
    """

    found: list[FoundJobs]
    unsearched: dict[str, str]
    unasked: Sequence[str] = ()

    @property
    def total(self) -> int:
        """Number of jobs that were found; unless ``is_whole``, there may be more."""
        return sum(len(one.rows) for one in self.found)

    @property
    def is_whole(self) -> bool:
        """Whether all matching jobs were found."""
        return not self.unsearched and not any(one.link or one.left_out for one in self.found)


async def find_groups(app: AppState, text: str) -> list[FailureGroup]:
    """Return failure groups with a text in their error or class, largest first."""
    wanted = text.lower()
    groups = await app.failure_groups.get("")
    found = [one for one in groups if wanted in f"{one.error} {one.example} {one.job}".lower()]
    return sorted(found, key=lambda one: -one.jobs)[:_MOST_GROUPS]


async def find_classes(app: AppState, text: str) -> list[str]:
    """Return names of job classes that contain a text, from worker reports and failure groups."""
    names = {one.name for report in await app.reports.get("") for one in report.classes}
    names |= {one.job for one in await app.failure_groups.get("") if one.job}
    return sorted(name for name in names if text.lower() in name.lower())[:_MOST_CLASSES]


async def find_by_key(app: AppState, queues: Sequence[str], text: str) -> JobSearchResult:
    """Find waiting and running jobs with a key, shared or unique, and open jobs that contain the text.

    The stores find the former by their indexes of keys, however many jobs there are. Keys, unique keys and statuses
    that contain the text are searched only in the latest jobs of each open state.
    """
    found, unsearched, unasked = list[FoundJobs](), dict.fromkeys(queues, ""), dict.fromkeys(queues)
    try:
        async with asyncio.timeout(KEY_SECONDS):
            for queue in queues:
                found += await _find_holders(app, queue, text)
                del unasked[queue]
            names = {row.info.descriptor for one in found for row in one.rows}
            for queue in queues:
                if await _search_latest(app, queue, text, names, found):
                    del unsearched[queue]
    except TimeoutError:
        pass
    return JobSearchResult(found, unsearched, list(unasked))


async def _find_holders(app: AppState, queue: str, text: str) -> list[FoundJobs]:
    found = []
    for display_state in _STATES_OF_KEYS if len(text) <= MAX_KEY_CHARACTERS and "\0" not in text else ():
        query = JobQuery(queue, display_state, key=text)
        try:
            page = await app.client.scan(queue, display_state.state, limit=_PER_STATE, key=text)
        except QueueNotFound:
            break
        if page.jobs:
            link = query.link() if page.continuation else ""
            found.append(FoundJobs(queue, display_state, await read_rows(app, page.jobs), link))
    return found


async def _search_latest(app: AppState, queue: str, text: str, names: Collection[str], found: list[FoundJobs]) -> bool:
    """Add the jobs of a queue except those in ``names``; return whether all its open jobs were searched."""
    is_whole = True
    for display_state in OPEN_STATES:
        try:
            page = await app.client.scan(queue, display_state.state, limit=KEY_JOBS, **display_state.filters)
        except QueueNotFound:
            return True
        jobs = [info for info in page.jobs if _has_text(info, text) and info.descriptor not in names]
        if jobs:  # no list filters by these texts, so all are shown that have room
            shown = jobs[: max(_MOST_FOUND - sum(len(one.rows) for one in found), _PER_STATE)]
            rows = await read_rows(app, shown)
            found.append(FoundJobs(queue, display_state, rows, "", len(jobs) - len(shown)))
        is_whole = is_whole and page.continuation is None
    return is_whole


async def find_by_body(app: AppState, queues: Sequence[str], text: str) -> JobSearchResult:
    """Search one queue after the other; the server limits each call to two seconds, the whole search has eight."""
    found, unsearched = list[FoundJobs](), dict.fromkeys(queues, "")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            for queue in queues:
                if sum(len(one.rows) for one in found) >= _MOST_FOUND:
                    break
                more = await _search_bodies(app, queue, text, found)
                if more is None:
                    del unsearched[queue]
                else:
                    unsearched[queue] = more
    except TimeoutError:
        pass
    return JobSearchResult(found, unsearched)


async def _search_bodies(app: AppState, queue: str, text: str, found: list[FoundJobs]) -> str | None:
    """Add the jobs of a queue; return the path where the search goes on, or empty; None: all bodies were searched."""
    more: str | None = None
    for display_state in DISPLAY_STATES:
        try:
            page = await app.searcher.scan(
                queue,
                display_state.state,
                limit=_PER_STATE,
                body_regex=argument_pattern(text),
                **display_state.filters,
            )
        except QueueNotFound:
            return None
        except ServerError:  # the search took too long there, or the pattern is invalid
            more = more or ""
            continue
        query = JobQuery(queue, display_state, argument=text)
        if page.continuation and len(page.jobs) < _PER_STATE:
            more = more or query.link(**{"from": from_text(page, 0)})
        if page.jobs:
            link = query.link() if page.continuation else ""
            found.append(FoundJobs(queue, display_state, await read_rows(app, page.jobs), link))
    return more


def _has_text(info: JobInfo, text: str) -> bool:
    return text in (info.unique or "") or (info.key is not None and text in info.key.text) or text in info.status
