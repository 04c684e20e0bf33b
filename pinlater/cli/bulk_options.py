"""The options of bulk actions: how many jobs, whether to act at all, and whether to ask first."""

from __future__ import annotations

import sys
from typing import NamedTuple

import click

from pinlater.cli.command import option_group


class BulkOptions(NamedTuple):
    """The options of a bulk action.

    Attributes:
        limit: maximum number of jobs; None for all.
        dry_run: only count the jobs.
        yes: do not ask for confirmation.
    """

    limit: int | None = None
    dry_run: bool = False
    yes: bool = False

    def require_confirmation(self) -> None:
        """Refuse a bulk action that nobody can confirm.

        Raises:
            UsageError: stdin is not a terminal, and --yes was not given.
        """
        if not (self.yes or self.dry_run or sys.stdin.isatty()):
            raise click.UsageError("Stdin is not a terminal, so nobody can confirm; add --yes.")


_UNASKED = {
    "limit": click.option("--limit", type=click.IntRange(min=0), help="Maximum number of jobs.  [default: all]"),
    "dry_run": click.option("--dry-run", is_flag=True, help="Only print the number of jobs."),
}
_ASKED = _UNASKED | {"yes": click.option("--yes", is_flag=True, help="Do not ask for confirmation.")}

with_bulk_options = option_group("options", _ASKED, lambda given: BulkOptions(**given))
"""Adds the options to a command that asks for confirmation."""

with_unasked_options = option_group("options", _UNASKED, lambda given: BulkOptions(**given, yes=True))
"""Adds the options to a command that does not ask."""
