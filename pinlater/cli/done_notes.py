"""Notes on errors that say what a command had already done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pinlater.cli.output import some_jobs
from pinlater.errors import PinLaterError


def done_before(what: str, number: int, past: str) -> str:
    """Format a note such as ``3 jobs were deleted before``; ``what`` names or counts them."""
    return f"{what} {'was' if number == 1 else 'were'} {past} before"


@contextlib.contextmanager
def noting_done(past: str) -> Iterator[list[str]]:
    """Add to an error the names in the list, which the caller appends as soon as each is ``past``.

    What is printed about them belongs inside, too: a disk may be full.
    """
    done: list[str] = []
    try:
        yield done
    except (PinLaterError, OSError, KeyboardInterrupt) as error:
        if done:
            error.add_note(done_before(", ".join(done), len(done), past))
        raise


@contextlib.contextmanager
def noting_number(number: int, past: str) -> Iterator[None]:
    """Add to an error how many jobs are ``past``."""
    try:
        yield
    except (PinLaterError, OSError, KeyboardInterrupt) as error:
        if number:
            error.add_note(done_before(some_jobs(number), number, past))
        raise
