"""The text that a failed attempt leaves in its job's status, and that log lines have."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pinlater.errors import Discard, Retry
from pinlater.jobs.context import JobContext
from pinlater.jobs.job import Job
from pinlater.jobs.step_failures import step_note
from pinlater.model.status import format_failure, format_origin, status_space

_HOST = socket.gethostname()
_MOST_FRAMES = 8
_OURS = frozenset(
    str(Path(__file__).parents[1] / "running" / f"{name}.py")
    for name in (
        "runner",
        "ended_run",
        "limits",
        "loop_limits",
        "coroutines",
        "thread_limits",
        "task_runner",
        "run_limits",
        "step_limits",
    )
) | {contextlib.__file__}
_OUR_FOLDER = str(Path(__file__).parents[2] / "jobs") + os.sep
"""Files whose lines in a traceback say nothing about a job: those that run it, and those of its context. Of the lines
between the job and its step, the status would keep the last ones, and cut the job's own."""


def describe_failure(
    attempt: int,
    attempts_allowed: int,
    seconds: float,
    error: BaseException,
    *,
    with_traceback: bool = True,
    is_last: bool = False,
    verdict: str = "",
    at_seconds: float | None = None,
) -> str:
    """Return the text that a failed attempt leaves in the job's status; see ``pinlater.model.status``.

    Args:
        attempt: number of the attempt.
        attempts_allowed: number of attempts in all.
        seconds: how long the attempt ran.
        error: what it raised.
        with_traceback: whether to say where it was raised.
        is_last: whether no attempt follows; this one then gets the space of the last attempt, whatever its number.
        verdict: why no attempt follows.
        at_seconds: when it failed, epoch seconds of the server's clock; None: now, by this machine's clock.
    """
    here = origin_here(time.time() if at_seconds is None else at_seconds)
    header = f"attempt {attempt}/{attempts_allowed} {here} {seconds:.2f} s"
    said = _sendable(describe_error(error))
    frames = [_sendable(frame) for frame in (*_frames_of(error), *_step_line(error))] if with_traceback else []
    return format_failure(
        header, said, frames, status_space(attempts_allowed if is_last else attempt, attempts_allowed), verdict
    )


def describe_unrun(metadata: Any, error: BaseException, *, is_last: bool, at_seconds: float | None = None) -> str:
    """Return the text of an attempt that has failed by no fault of ``run``; see ``describe_failure``.

    Args:
        metadata: metadata of the job, as the server sent it.
        error: why it has failed.
        is_last: whether no attempt follows.
        at_seconds: when it failed.
    """
    attempt, allowed = attempt_of(metadata), metadata.attemptsAllowed
    return describe_failure(attempt, allowed, 0.0, error, with_traceback=False, is_last=is_last, at_seconds=at_seconds)


def attempt_of(metadata: Any) -> int:
    """Return the number of a job's attempt, from 1, given its metadata."""
    attempt: int = metadata.attemptsAllowed - metadata.attemptsRemaining + 1
    return attempt


def origin_here(at_seconds: float) -> str:
    """Return a time in epoch seconds, with this machine and process, as it is in statuses of jobs."""
    return format_origin(_HOST, os.getpid(), at_seconds)


def describe_error(error: BaseException) -> str:
    """Return the class and text of an exception: the text of ``KeyError`` is only the key, and others have none.

    A ``Retry`` or ``Discard`` without a reason has that of the exception that the job caught when it raised it.
    """
    text = error_text(error)
    return f"{type(error).__name__}{': ' if text.strip() else ''}{text}"


def error_text(error: BaseException) -> str:
    """Return the text of an exception, even if its class is broken; see ``describe_error``."""
    caught = error.__context__ if error.__cause__ is None and not error.__suppress_context__ else error.__cause__
    if caught is not None and _lacks_reason(error):
        return describe_error(caught)
    try:
        return f"{error}{_advice_on(error)}"
    except BaseException as other:  # noqa: BLE001 - it is the job's own code
        return f"(its text cannot be had: {type(other).__name__})"


def _advice_on(error: BaseException) -> str:
    """Return what to write instead of an attribute that a job, or its context, has in other job systems."""
    if not (isinstance(error, AttributeError) and isinstance(error.obj, Job | JobContext)):
        return ""
    from pinlater.jobs.option_names import advise_in_run

    return advise_in_run(error)


def _lacks_reason(error: BaseException) -> bool:
    if type(error).__str__ is not BaseException.__str__:  # the job's own class says it in its own way
        return False
    if isinstance(error, Retry):
        return getattr(error, "reason", None) == ""  # one that has not called our __init__ has a text of its own
    return isinstance(error, Discard) and not error.args


def _sendable(text: str) -> str:
    """Escape what UTF-8 cannot carry: file names that are not UTF-8 have lone surrogates in them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _step_line(error: BaseException) -> list[str]:
    note = step_note(error)
    return [f"  {note}"] if note else []


def _is_ours(file: str) -> bool:
    return file in _OURS or file.startswith(_OUR_FOLDER)


def _frames_of(error: BaseException) -> Iterator[str]:
    """Yield the frames of a traceback without the marks below their lines, so that more frames fit."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    for frame in frames[-_MOST_FRAMES:]:
        where = f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        yield f"{where}\n    {frame.line}" if frame.line else where
