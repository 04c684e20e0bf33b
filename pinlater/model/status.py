"""Format of a job's custom status: workers append a block of lines for each failed attempt.

::

    [attempt 2/5 2026-11-21T12:30:05Z web1 4242 0.52 s] OSError: connection refused
      File "/srv/jobs.py", line 12, in run
        mailer.send(self.user_id)
      in step "send"
    [2026-11-21T12:31:07Z web1 4243] crash 1: the process died while it ran SendMail for 3.10 s: killed by SIGSEGV

The first line has the number of the attempt, the time and place of the failure, and the run time; in a workflow, the
last one has the step in which it failed. The second block is from the keeper, which does not know the number of the
attempt. Servers append to a status and truncate it at 5000 characters, so each attempt gets a share of the space that
depends on the number of attempts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_STATUS_CHARACTERS = 5000
"""Length at which servers truncate a custom status."""

CANCELLED_WITH_PARENT = "cancelled with its parent\n"
"""What the status of a job says that was cancelled because the job that waits for it was."""

SAGAS_UNDONE = "its sagas are undone"
"""What the error of the attempt says that has undone the sagas of a job that gave up."""

SAGAS_LEFT = "not undone, and left so: "
"""Begin of the line below an error that names the steps that the last attempt could not undo."""

_PLANNED_CHARACTERS = 4000
"""Space for a job's attempts; the rest is for the text of its enqueue, crashes and manual retries."""
_MAX_RECORDED = 20
"""Of more attempts, those in the middle are not recorded: their lines would be too short to be useful."""
_FIRST_RECORDED = 5
_SHORTEST_LINE = 150
_LONGEST_LINE = 400
_TRACEBACK = 500
"""Shortest space for which a traceback is worth writing."""
_LONGEST_TRACEBACK = 1200
_LONGEST_HOST = 32

_HEADER = re.compile(
    r"\[(?:attempt (?P<attempt>\d{1,9})/(?P<allowed>\d{1,9}) )?"
    r"(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (?P<host>\S+) (?P<pid>\d{1,9})"
    r"(?: (?P<seconds>\d{1,9}\.\d\d) s)?\] (?P<error>.*)$",
    re.MULTILINE | re.ASCII,
)
_DEATH = re.compile(r"^crash \d|\b(?:the|its) process (?:died|ended)\b")
_STEP_LINE = re.compile(r'  in step (".*")')
_HEADED_LINE = re.compile(f"^{_HEADER.pattern}", _HEADER.flags)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt, parsed from the job's custom status.

    Attributes:
        error: the exception, or how the process ended.
        traceback: the end of the traceback, if there was space for it.
        host: host that ran it.
        pid: process that ran it.
        at_ms: epoch milliseconds of the failure, to the second; None if the date is invalid.
        attempt: number of the attempt, from 1; None, like the next two, if its process died or the job was not run.
        attempts_allowed: total number of attempts.
        seconds: run time.
        step: name of the step in which it failed; empty if unknown.
    """

    error: str
    traceback: str
    host: str
    pid: int
    at_ms: int | None = None
    attempt: int | None = None
    attempts_allowed: int | None = None
    seconds: float | None = None
    step: str = ""

    @property
    def title(self) -> str:
        """What it was, in words: ``attempt 2 of 5``, ``process died``, or ``no attempt`` if the job was not run."""
        if self.attempt is not None:
            return f"attempt {self.attempt} of {self.attempts_allowed}"
        return "process died" if _DEATH.search(self.error) else "no attempt"

    @property
    def has_undone(self) -> bool:
        """Whether it has undone the job's sagas, so that further attempts have nothing to do."""
        return SAGAS_UNDONE in self.error and SAGAS_LEFT not in self.traceback


@dataclass(frozen=True, slots=True)
class StatusSpace:
    """Characters that one attempt may use in the status.

    Attributes:
        line: limit of its first line.
        total: limit of all its lines; equals ``line`` if there is no space for a traceback, 0 if none for the attempt.
    """

    line: int
    total: int


def status_space(attempt: int, attempts_allowed: int) -> StatusSpace:
    """Return the space of one attempt; the first and the last attempts get space for a traceback."""
    recorded = max(min(attempts_allowed, _MAX_RECORDED), 1)
    if _FIRST_RECORDED < attempt <= attempts_allowed - recorded + _FIRST_RECORDED:
        return StatusSpace(0, 0)
    line = max(min(_PLANNED_CHARACTERS // (2 * recorded), _LONGEST_LINE), _SHORTEST_LINE)
    left = _PLANNED_CHARACTERS - recorded * line
    traced = min(recorded, left // _TRACEBACK)
    has_traceback = attempt == 1 or attempt > attempts_allowed - max(traced - 1, 1)
    return StatusSpace(line, line + min(left // traced, _LONGEST_TRACEBACK) if has_traceback else line)


def format_origin(host: str, pid: int, at_seconds: float) -> str:
    """Return time, host and process id as text; ``at_seconds`` is epoch time."""
    moment = datetime.fromtimestamp(at_seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ} {host[:_LONGEST_HOST]} {pid}"


def format_failure(header: str, error: str, frames: Iterable[str], space: StatusSpace, verdict: str = "") -> str:
    """Format the block of a failed attempt.

    Args:
        header: the part in brackets.
        error: the exception.
        frames: frames of the traceback, the innermost last; each may have several lines.
        space: see ``status_space``.
        verdict: the consequence of the error; never truncated.
    """
    if not space.total:
        return ""
    line, most = f"[{header}] {' '.join(error.split())}", space.line - 1 - len(verdict)
    text = (line if len(line) <= most else f"{line[: most - 1]}…") + f"{verdict}\n"
    left = space.total - len(text)
    kept: list[str] = []
    for frame in reversed(list(frames)):
        if len(frame) + 1 > left:
            break
        kept.insert(0, f"{frame}\n")
        left -= len(kept[0])
    return text + "".join(kept)


def cancelled_status(reason: str = "") -> str:
    """Format the line that says that a job was cancelled, and why."""
    return f"cancelled: {reason}\n" if reason else "cancelled\n"


def parse_status(status: str) -> tuple[str, list[FailedAttempt]]:
    """Split a status into the text before the failed attempts, and these attempts, the oldest first.

    A status in any other format is all text.
    """
    headers = list(_HEADED_LINE.finditer(status))
    first = _HEADER.search(status)  # the text of an enqueue may lack a line end
    if first is not None and (not headers or first.start() < headers[0].start()):
        headers.insert(0, first)
    if not headers:
        return status, []
    ends = [header.start() for header in headers[1:]] + [len(status)]
    found = [_read(header, status[header.end() : end]) for header, end in zip(headers, ends, strict=True)]
    if all(each.at_ms is not None for each in found):
        found.sort(key=lambda each: each.at_ms or 0)  # when space is short, crashes are written at the front
    return status[: headers[0].start()], found


def _read(header: re.Match[str], rest: str) -> FailedAttempt:
    attempt, allowed, seconds = header["attempt"], header["allowed"], header["seconds"]
    traceback, step = _without_step(rest.strip("\n"))
    return FailedAttempt(
        error=header["error"],
        traceback=traceback,
        host=header["host"],
        pid=int(header["pid"]),
        attempt=int(attempt) if attempt else None,
        attempts_allowed=int(allowed) if allowed else None,
        at_ms=_epoch_ms(header["moment"]),
        seconds=float(seconds) if seconds else None,
        step=step,
    )


def _without_step(traceback: str) -> tuple[str, str]:
    """Split the step off the end of a traceback; its name is empty if there is none."""
    above, _, last = traceback.rpartition("\n")
    step = _STEP_LINE.fullmatch(last)
    try:
        return (above, str(json.loads(step[1]))) if step else (traceback, "")
    except ValueError:
        return traceback, ""


def _epoch_ms(moment: str) -> int | None:
    try:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:  # such as the 31st of February, from another writer
        return None
