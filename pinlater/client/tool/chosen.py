"""Jobs chosen by a text in their status or body, and what is done to many jobs: in batches, with a bar."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from pinlater.client.tool.output import some_jobs
from pinlater.errors import PinLaterError
from pinlater.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.client.records import JobInfo

T = TypeVar("T")

AT_ONCE = 500
"""Jobs in one call: few enough that a bar moves and nobody else waits for long."""

WHERE_HELP = "Only jobs with a match of this text or regular expression in their status or body."


def parse_where(text: str) -> re.Pattern[str]:
    """Return what to look for; a text without special letters is a regular expression for itself."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is no regular expression: {error}; put a backslash before . * + ? ( ) [ ] and the like"
        ) from None


class Wanted(NamedTuple):
    """Which jobs.

    Attributes:
        queue: of this queue.
        state: in this state.
        priority: of this level; None is all.
        where: with a match of this; None is any.
    """

    queue: str
    state: JobState
    priority: int | None
    where: re.Pattern[str] | None

    def count(self, client: Client, *, body_regex: str | None = None) -> int:
        """Return how many there are, whatever ``where`` says; no more than the server counts."""
        return sum(
            client.count(self.queue, self.state, priority=self.priority, future=future, body_regex=body_regex)
            for future in self._futures
        )

    def find(self, client: Client, limit: int) -> list[str]:
        """Return the descriptors of up to ``limit`` jobs that match; shows how far it is."""
        found: list[str] = []
        with bar(self.count(client), f"looking through {self.queue}") as look:
            for page in batches(self._scan(client), AT_ONCE):
                found += self._matching(client, page)
                look.update(len(page))
                if len(found) >= limit:
                    break
        return found[:limit]

    @property
    def _futures(self) -> Sequence[bool]:
        return (False, True) if self.state is JobState.PENDING else (False,)

    def _scan(self, client: Client) -> Iterator[JobInfo]:
        for future in self._futures:
            yield from client.scan_all(self.queue, self.state, priority=self.priority, future=future, page_size=AT_ONCE)

    def _matching(self, client: Client, page: list[JobInfo]) -> list[str]:
        if self.where is None:
            return [info.descriptor for info in page]
        search = self.where.search
        matching = {info.descriptor for info in page if search(info.status)}
        others = [info.descriptor for info in page if info.descriptor not in matching]
        for part in batches(others, AT_ONCE // 10):  # bodies may be large
            bodies = client.lookup(part, include_body=True)
            matching |= {name for name, info in bodies.items() if search(_text(info.body))}
        return [info.descriptor for info in page if info.descriptor in matching]


def _text(body: bytes | None) -> str:
    return (body or b"").decode("utf-8", "backslashreplace")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of ``size``."""
    rest = iter(items)
    while part := list(itertools.islice(rest, size)):
        yield part


def do_in_batches(descriptors: list[str], label: str, act: Callable[[list[str]], int]) -> int:
    """Do something to jobs, some hundred at a time; return how many it was done to."""
    done = 0
    with bar(len(descriptors), label) as progress:
        for part in batches(descriptors, AT_ONCE):
            with _noting(done):
                done += act(part)
            progress.update(len(part))
    return done


def do_up_to(limit: int, label: str, act: Callable[[int], int]) -> int:
    """Let the server do something to up to ``limit`` jobs, some hundred at a time; return how many it did it to."""
    done = 0
    with bar(limit, label) as progress:
        while done < limit:
            wanted = min(AT_ONCE, limit - done)
            with _noting(done):
                number = act(wanted)
            done += number
            progress.update(number)
            if number < wanted:
                break
    return done


@contextlib.contextmanager
def _noting(done: int) -> Iterator[None]:
    """Let an error say what was done before it."""
    try:
        yield
    except PinLaterError as error:
        if done:
            error.add_note(f"{some_jobs(done)} were done before")
        raise


def bar(length: int, label: str) -> Any:
    """Return a progress bar for somebody who is watching."""
    return click.progressbar(length=length, label=label, show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty())
