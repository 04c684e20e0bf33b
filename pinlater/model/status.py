"""What workers write into a job's custom status, and how it is read: a block of lines for each attempt that failed.

::

    [attempt 2/5 2026-11-21T12:30:05Z web1 4242 0.52 s] OSError: connection refused
      File "/srv/jobs.py", line 12, in run
        mailer.send(self.user_id)
    [2026-11-21T12:31:07Z web1 4243] crash 1: the process died while it ran SendMail for 3.10 s: killed by SIGSEGV

The first line says which attempt of how many, when and where it failed, and how long it had run. The second block comes
from the keeper, which does not know the number of the attempt. Servers append, and cut at 5000 characters: so each
attempt has a room of its own, which depends on how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

STATUS_ROOM = 5000
"""Characters of a custom status that servers keep; what is appended beyond them is lost."""

_PLANNED_ROOM = 4000
"""For the attempts that a job has; the rest is for the text of its enqueue, for crashes and for retries by hand."""
_MOST_TOLD = 20
"""Of more attempts, those in the middle leave nothing: lines would become too short to say anything."""
_FIRST_TOLD = 5
_SHORTEST_LINE = 150
_LONGEST_LINE = 400
_TRACEBACK = 500
"""Characters that a traceback should have, if there is to be one."""
_LONGEST_TRACEBACK = 1200
_LONGEST_HOST = 32

_HEADER = re.compile(
    r"\[(?:attempt (?P<attempt>\d{1,9})/(?P<allowed>\d{1,9}) )?"
    r"(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (?P<host>\S+) (?P<pid>\d{1,9})"
    r"(?: (?P<seconds>\d{1,9}\.\d\d) s)?\] (?P<error>.*)$",
    re.MULTILINE | re.ASCII,
)
_HEADED_LINE = re.compile(f"^{_HEADER.pattern}", _HEADER.flags)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One attempt that failed, by the job's custom status.

    Attributes:
        error: what the job raised, or how its process ended.
        traceback: the end of it, if it is there.
        host: where it ran.
        pid: in which process.
        at_ms: epoch milliseconds of its end, to the second; None if that is no date.
        attempt: its number, 1 for the first; None if its process ended with it, as of the next two.
        attempts_allowed: attempts in all.
        seconds: how long it ran.
    """

    error: str
    traceback: str
    host: str
    pid: int
    at_ms: int | None = None
    attempt: int | None = None
    attempts_allowed: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """Characters that an attempt may leave in the status.

    Attributes:
        line: of its first line.
        whole: of all its lines; the same as ``line`` where there is no room for a traceback, 0 for nothing at all.
    """

    line: int
    whole: int


def room_of(attempt: int, attempts_allowed: int) -> Room:
    """Return the room of one attempt, so that all of them find theirs: the first and the last ones with a traceback."""
    told = max(min(attempts_allowed, _MOST_TOLD), 1)
    if _FIRST_TOLD < attempt <= attempts_allowed - told + _FIRST_TOLD:
        return Room(0, 0)
    line = max(min(_PLANNED_ROOM // (2 * told), _LONGEST_LINE), _SHORTEST_LINE)
    left = _PLANNED_ROOM - told * line
    traced = min(told, left // _TRACEBACK)
    has_traceback = attempt == 1 or attempt > attempts_allowed - max(traced - 1, 1)
    return Room(line, line + min(left // traced, _LONGEST_TRACEBACK) if has_traceback else line)


def place(host: str, pid: int, at_seconds: float) -> str:
    """Return when and where something happened; ``at_seconds`` is epoch time."""
    moment = datetime.fromtimestamp(at_seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ} {host[:_LONGEST_HOST]} {pid}"


def block(header: str, error: str, frames: Iterable[str], room: Room, verdict: str = "") -> str:
    """Return the lines that an attempt leaves in the status.

    Args:
        header: the part in brackets.
        error: what it raised.
        frames: of the traceback, the innermost last; each may have several lines.
        room: see ``room_of``.
        verdict: what follows from the error; never cut.
    """
    if not room.whole:
        return ""
    line, most = f"[{header}] {' '.join(error.split())}", room.line - 1 - len(verdict)
    text = (line if len(line) <= most else f"{line[: most - 1]}…") + f"{verdict}\n"
    left = room.whole - len(text)
    kept: list[str] = []
    for frame in reversed(list(frames)):
        if len(frame) + 1 > left:
            break
        kept.insert(0, f"{frame}\n")
        left -= len(kept[0])
    return text + "".join(kept)


def failed_attempts_in(status: str) -> tuple[str, list[FailedAttempt]]:
    """Return the text that stands before all attempts, and the attempts, the oldest first.

    Of a status that somebody else writes, all of it is text.
    """
    headers = list(_HEADED_LINE.finditer(status))
    first = _HEADER.search(status)  # the text of an enqueue need not end its line
    if first is not None and (not headers or first.start() < headers[0].start()):
        headers.insert(0, first)
    if not headers:
        return status, []
    ends = [header.start() for header in headers[1:]] + [len(status)]
    found = [_read(header, status[header.end() : end]) for header, end in zip(headers, ends, strict=True)]
    if all(each.at_ms is not None for each in found):
        found.sort(key=lambda each: each.at_ms or 0)  # where room is short, crashes are written at the front
    return status[: headers[0].start()], found


def _read(header: re.Match[str], rest: str) -> FailedAttempt:
    attempt, allowed, seconds = header["attempt"], header["allowed"], header["seconds"]
    return FailedAttempt(
        error=header["error"],
        traceback=rest.strip("\n"),
        host=header["host"],
        pid=int(header["pid"]),
        attempt=int(attempt) if attempt else None,
        attempts_allowed=int(allowed) if allowed else None,
        at_ms=_epoch_ms(header["moment"]),
        seconds=float(seconds) if seconds else None,
    )


def _epoch_ms(moment: str) -> int | None:
    try:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:  # the 31st of February, of somebody else's making
        return None
