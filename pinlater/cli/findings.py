"""Display of what the doctor has found, and of what it could not look at."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pinlater.cli.output import moment, visible

if TYPE_CHECKING:
    from pinlater.triage.findings import Finding

_WRAPPER = textwrap.TextWrapper(80, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
"""Keeps options such as ``--unknown-after`` in one piece, so that they can be copied."""
_MOST_OF_A_KIND = 5


def print_not_told(missing: Sequence[str]) -> None:
    """Print to stderr what could not be read."""
    for each in missing:
        click.echo(f"not looked at: {visible(each)}", err=True)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the first findings of each kind."""
    seen = Counter[str]()
    for finding in findings:
        seen[finding.kind] += 1
        if seen[finding.kind] <= _MOST_OF_A_KIND:
            _print_finding(finding)
    for kind, number in seen.items():
        if number > _MOST_OF_A_KIND:
            click.echo(f"{number - _MOST_OF_A_KIND} more of the kind {kind}; --json has them")


def _print_finding(finding: Finding) -> None:
    """Print a finding as a paragraph of at most 80 columns, with control characters escaped."""
    since = "" if finding.group_id is None else f" The first failure was at {moment(finding.since_ms)}."
    click.echo(f"{finding.severity.value.upper()}  {visible(finding.title)}")
    for text in (f"{finding.sentence}{since}", finding.advice):
        click.echo(_WRAPPER.fill(visible(text)))
    if finding.command:
        click.echo(f"    {visible(finding.command)}")
    click.echo()
