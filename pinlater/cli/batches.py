"""Work on many jobs, batch by batch, with a progress bar."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import click

T = TypeVar("T")

BATCH_SIZE = 500
"""Jobs of one call: few enough that the progress bar moves and other clients do not wait for long."""


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of ``size``."""
    rest = iter(items)
    while part := list(itertools.islice(rest, size)):
        yield part


def progress_bar(length: int, label: str) -> Any:
    """Return a progress bar, hidden if stderr is not a terminal."""
    return click.progressbar(length=length, label=label, show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty())
