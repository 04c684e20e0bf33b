"""How one attempt of a job ended, and the words that are kept of a failure."""

from __future__ import annotations

import os
import socket
import traceback
from dataclasses import dataclass
from pathlib import Path

MOST_STATUS_CHARACTERS = 1500

_HOST = socket.gethostname()
_MOST_FRAMES = 8
_OURS = frozenset(str(Path(__file__).with_name(name)) for name in ("runner.py", "limits.py", "coroutines.py"))
"""Whose lines say nothing about a job."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt is spent.

    Attributes:
        status: text for the job's custom status.
        delay_ms: milliseconds until the next attempt.
        is_final: there is no next attempt, whatever remains.
    """

    status: str
    delay_ms: int = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Interruption:
    """The job goes on elsewhere, no attempt spent.

    Attributes:
        body: what it goes on from.
        run_after_ms: epoch milliseconds before which it does not; None leaves it its place in the queue.
        attempts: of a job that has run and does so again: attempts of its next run.
    """

    body: bytes
    run_after_ms: int | None = None
    attempts: int | None = None


Outcome = Failure | Interruption
"""What is not a success; a success has no details, and is None."""


def attempt_header(attempt: int, attempts_allowed: int, seconds: float) -> str:
    """Return the beginning of a status: which attempt, where, how long."""
    return f"[attempt {attempt}/{attempts_allowed} {_HOST} {os.getpid()} {seconds:.2f} s]"


def in_words(header: str, error: BaseException, *, with_traceback: bool = True) -> str:
    """Return the status of a failure: one line that says it, then the end of the traceback."""
    text = " ".join(text_of(error).split())
    first = f"{header} {type(error).__name__}{': ' if text else ''}{text}"[: MOST_STATUS_CHARACTERS // 2]
    trace = _trace_of(error, MOST_STATUS_CHARACTERS - len(first) - 2) if with_traceback else ""
    return _sendable(f"{first}\n{trace}\n" if trace else f"{first}\n")


def text_of(error: BaseException) -> str:
    """Return what an exception says, even if its class is broken itself."""
    try:
        return str(error)
    except BaseException as other:  # noqa: BLE001 - it is the job's own code
        return f"(its text cannot be had: {type(other).__name__})"


def _sendable(text: str) -> str:
    """Return a text as UTF-8 can carry it: the names of files that are not UTF-8 have halves of surrogates in them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _trace_of(error: BaseException, room: int) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OURS]
    lines = traceback.format_list(frames[-_MOST_FRAMES:])
    return "".join(lines).rstrip()[-room:]
