"""Bulk actions: confirmed, run in batches with a progress bar, and reported, even after ^C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

import click

from pinlater.cli.batches import BATCH_SIZE, batches, progress_bar
from pinlater.cli.bulk_options import BulkOptions
from pinlater.cli.done_notes import noting_number
from pinlater.cli.job_selection import JobSelection
from pinlater.cli.output import print_json, some_jobs

if TYPE_CHECKING:
    from pinlater.client.client import Client

_MANY = 10_000
"""A count this high may be where the server stopped counting, so jobs are counted again when so many are done. After a
lower one that would not be safe: jobs that come back, for example because they failed again, could go on forever."""


class BulkAction(NamedTuple):
    """An action on many jobs, by the forms of its verb: ``delete``, ``deleting``, ``deleted``."""

    name: str
    present: str
    past: str

    def confirm(self, number: str, selection: JobSelection, to: str = "") -> bool:
        """Ask the user to confirm; print that there are no jobs if ``number`` is empty."""
        level = "" if selection.job_filter.priority is None else f" of priority {selection.job_filter.priority}"
        what = f"{selection.state.name} {'job' if number == '1' else 'jobs'}{level} in {selection.queue}"
        if not number:
            click.echo(f"there are no {what}{'' if selection.job_filter.is_for_server else ' that match'}", err=True)
            return False
        return click.confirm(f"{self.name.capitalize()} {number} {what}{to and f' to {to}'}?", err=True)

    def report(self, number: int, *, dry_run: bool, as_json: bool, **more: int) -> None:
        """Print the number of affected jobs; ``more`` are further JSON fields."""
        with noting_number(0 if dry_run else number, self.past):
            if as_json:
                print_json({f"would_{self.name}" if dry_run else self.past: number, **more})
            else:
                click.echo(f"{some_jobs(number)} {'would be ' if dry_run else ''}{self.past}")

    def carry_out(
        self,
        client: Client,
        selection: JobSelection,
        options: BulkOptions,
        act: Callable[[list[str]], int],
        act_on_server: Callable[[int, int], int] | None = None,
        *,
        as_json: bool,
    ) -> int:
        """Act on the selected jobs and print how many they are; return the exit status: 1 if the user declined.

        Args:
            client: client of the server.
            selection: the jobs.
            options: how many, and whether to act and to ask.
            act: acts on jobs by descriptor; returns on how many.
            act_on_server: see ``run_on_server``; used if the server filters the jobs by itself.
            as_json: see ``report``.
        """
        limit = options.limit
        if act_on_server is not None and selection.job_filter.is_for_server and selection.body_regex is None:
            there = selection.count(client) if options.dry_run or not options.yes else 0
            number, shown = capped(there, limit), f"{capped(there, limit)} of {there}"
            run = partial(self.run_on_server, client, selection, limit, act_on_server)
        else:
            found = selection.find(client, limit)
            there = number = len(found)
            shown, run = str(number), partial(self.run_in_batches, found, act)
        if not (options.dry_run or options.yes or self.confirm(shown if there else "", selection)):
            return 1
        self.report(number if options.dry_run else run(), dry_run=options.dry_run, as_json=as_json)
        return 0

    def run_in_batches(self, descriptors: Sequence[str], act: Callable[[list[str]], int]) -> int:
        """Act on jobs by descriptor, batch by batch; return the number of affected jobs."""
        done = 0
        with progress_bar(len(descriptors), self.present) as progress, _DeferredInterrupt() as interrupt:
            for part in batches(descriptors, BATCH_SIZE):
                with noting_number(done, self.past):
                    interrupt.check()
                    done += act(part)
                progress.update(len(part))
        return done

    def run_on_server(
        self, client: Client, selection: JobSelection, limit: int | None, act: Callable[[int, int], int]
    ) -> int:
        """Let the server act on the jobs that exist now, batch by batch; return the number of affected jobs.

        Args:
            client: client that counts the jobs.
            selection: the jobs; without a priority, all priority levels one after the other.
            limit: maximum number of jobs; None for all.
            act: acts on up to a given number of jobs of a given priority; returns how many; fewer means none are left.
        """
        counts = selection.counts(client)
        done = remaining = 0
        with (
            progress_bar(capped(sum(counts.values()), limit), self.present) as progress,
            _DeferredInterrupt() as interrupt,
        ):
            for priority, there in counts.items():
                left = counted = there
                while left and (limit is None or done < limit):
                    number = min(BATCH_SIZE, capped(left, None if limit is None else limit - done))
                    with noting_number(done, self.past):
                        interrupt.check()
                        acted = act(priority, number)
                    done += acted
                    progress.update(acted)
                    if acted < number:
                        break
                    left -= acted
                    if not left and done != limit:
                        with noting_number(done, self.past):
                            more = selection.count_at(client, priority)
                        if counted >= _MANY:
                            left = counted = more
                        else:
                            remaining += more
        if remaining:
            click.echo(
                f"at least {some_jobs(remaining)} left: new since the start, or beyond what the server counts "
                "(COUNT_LIMIT); repeat the command for them",
                err=True,
            )
        return done


class _DeferredInterrupt:
    """Defers ^C until the current call is answered, so that its result is known; a second ^C is not deferred."""

    def __init__(self) -> None:
        self._is_pending = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        # The shell ignores SIGINT for programs in the background.
        self._is_ours = self._before is not signal.SIG_IGN and threading.current_thread() is threading.main_thread()
        if self._is_ours:
            signal.signal(signal.SIGINT, self._defer)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise the deferred interrupt, if any.

        Raises:
            KeyboardInterrupt: ^C was pressed.
        """
        if self._is_pending:
            raise KeyboardInterrupt

    def _defer(self, *_: object) -> None:
        self.check()
        self._is_pending = True
        if sys.stderr.isatty():
            click.echo("\nstopping after this batch; press ^C again to stop now", err=True)


def capped(number: int, limit: int | None) -> int:
    """Return ``number``, or the limit if that is lower; None for no limit."""
    return number if limit is None else min(number, limit)
