"""Notes on errors that say what a command had already done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

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
    with _noting(lambda: done_before(", ".join(done), len(done), past) if done else ""):
        yield done


def noting_number(number: int, past: str) -> contextlib.AbstractContextManager[None]:
    """Return a context that adds to an error how many jobs are ``past``."""
    return _noting(lambda: done_before(some_jobs(number), number, past) if number else "")


@contextlib.contextmanager
def _noting(note: Callable[[], str]) -> Iterator[None]:
    """Add a note to an error, unless it is empty."""
    try:
        yield
    except (PinLaterError, OSError, KeyboardInterrupt) as error:
        if text := note():
            error.add_note(text)
        raise
