"""What is done to many jobs: asked first, in batches, with a bar; and what is said of it, also after ^C."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import click

from pinlater.cli.output import print_json, some_jobs
from pinlater.errors import PinLaterError

if TYPE_CHECKING:
    from pinlater.cli.job_selection import Wanted
    from pinlater.client.client import Client

T = TypeVar("T")

AT_ONCE = 500
"""Jobs in one call: few enough that a bar moves and nobody else waits for long."""

_MANY = 10_000
"""A count of so many jobs may be where the server stopped counting."""


class Deed(NamedTuple):
    """What is done to jobs, in its three forms: ``delete``, ``deleting``, ``deleted``."""

    name: str
    present: str
    past: str

    def confirmed(self, number: str, wanted: Wanted, to: str = "") -> bool:
        """Ask whether it is to be done, to which queue; with an empty ``number``, say that there is nothing to do."""
        level = "" if wanted.which.priority is None else f" of priority {wanted.which.priority}"
        what = f"{wanted.state.name} jobs{level} in {wanted.queue}"
        if not number:
            click.echo(f"there are no {what}{'' if wanted.which.is_for_server else ' that match'}", err=True)
            return False
        return click.confirm(f"{self.name.capitalize()} {number} {what}{to and f' to {to}'}?", err=True)

    def report(self, number: int, *, dry_run: bool, as_json: bool, **more: int) -> None:
        """Print to how many jobs it was done; ``more`` is for programs."""
        if as_json:
            print_json({f"would_{self.name}" if dry_run else self.past: number, **more})
        else:
            click.echo(f"{some_jobs(number)} {'would be ' if dry_run else ''}{self.past}")

    def do_in_batches(self, descriptors: Sequence[str], act: Callable[[list[str]], int]) -> int:
        """Do it to these jobs, some hundred at a time; return to how many it was done."""
        done = 0
        with bar(len(descriptors), self.present) as progress, _Interrupt() as interrupt:
            for part in batches(descriptors, AT_ONCE):
                with self._noting(done):
                    interrupt.check()
                    done += act(part)
                progress.update(len(part))
        return done

    def do_by_server(self, client: Client, wanted: Wanted, limit: int | None, act: Callable[[int, int], int]) -> int:
        """Let the server do it to the jobs that are there now, some hundred at a time; return to how many it did it.

        Args:
            client: counts the jobs.
            wanted: which jobs; without a priority, one priority level after the other.
            limit: at most so many; None: all.
            act: does it to up to so many jobs of a priority, and returns to how many; fewer: there are no more.
        """
        counts = wanted.counts(client)
        done = 0
        with bar(at_most(sum(counts.values()), limit), self.present) as progress, _Interrupt() as interrupt:
            for priority, there in counts.items():
                left = there
                while left and (limit is None or done < limit):
                    number = min(AT_ONCE, at_most(left, None if limit is None else limit - done))
                    with self._noting(done):
                        interrupt.check()
                        acted = act(priority, number)
                    done += acted
                    progress.update(acted)
                    if acted < number:
                        break
                    left -= acted
                    if not left:
                        left = _uncounted(wanted.count_at(client, priority))
        return done

    @contextlib.contextmanager
    def _noting(self, done: int) -> Iterator[None]:
        """Let an error say what was done before it."""
        try:
            yield
        except (PinLaterError, KeyboardInterrupt) as error:
            if done:
                error.add_note(f"{some_jobs(done)} {'was' if done == 1 else 'were'} {self.past} before")
            raise


class _Interrupt:
    """Puts ^C off until the call under way has its answer, so that it is known what was done; a second one acts."""

    def __init__(self) -> None:
        self._is_heard = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        # Of a program that was started in the background, the shell wants it to be ignored.
        self._is_ours = self._before is not signal.SIG_IGN and threading.current_thread() is threading.main_thread()
        if self._is_ours:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """End here if that is wanted.

        Raises:
            KeyboardInterrupt: it is.
        """
        if self._is_heard:
            raise KeyboardInterrupt

    def _hear(self, *_: object) -> None:
        self.check()
        self._is_heard = True
        if sys.stderr.isatty():
            click.echo("\nending after this batch; ^C again does not wait for it", err=True)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of ``size``."""
    rest = iter(items)
    while part := list(itertools.islice(rest, size)):
        yield part


def bar(length: int, label: str) -> Any:
    """Return a progress bar for somebody who is watching."""
    return click.progressbar(length=length, label=label, show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty())


def _uncounted(left: int) -> int:
    """Return how many jobs to go on with that are left after all that were counted.

    A server counts up to a bound, so many may have been there from the start. Few have come back meanwhile, say because
    they failed again: to go on with them could have no end.
    """
    return left if left >= _MANY else 0


def at_most(there: int, limit: int | None) -> int:
    """Return how many of ``there`` jobs a limit lets pass; None lets all."""
    return there if limit is None else min(there, limit)


def refuse_unasked(*, yes: bool, dry_run: bool) -> None:
    """Refuse to do what somebody should be asked about, when nobody is there.

    Raises:
        UsageError: nobody is.
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise click.UsageError("Nobody is there to ask; add --yes.")
