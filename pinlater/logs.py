"""Log records of all our programs on standard error: what plain and JSON lines have in common."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO

MOST_MESSAGE_CHARACTERS = 8_000
"""Of one JSON line. Collectors cut or drop lines that are too long, and a cut object is none."""
MOST_TRACEBACK_CHARACTERS = 16_000
_MOST_FIELD_CHARACTERS = 500
_STDERR = 2


def set_up(
    level: str,
    formatter: logging.Formatter,
    new_handler: Callable[[TextIO | None], logging.Handler] = logging.StreamHandler,
) -> None:
    """Let the whole program log to standard error.

    Args:
        level: least severe to show, such as ``INFO``.
        formatter: makes the lines.
        new_handler: makes what writes them, given the stream.
    """
    handler = new_handler(_own_stderr())
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)


def say_why_it_ends(program: str, text: str, *, as_json: bool | None = None) -> None:
    """Write to standard error why a program cannot start, without a traceback.

    Args:
        program: its name.
        text: may have several lines.
        as_json: as a JSON line, as logs are written then; None: if the log of this process is written so.
    """
    if as_json is None:
        as_json = any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)
    if as_json:
        record = logging.LogRecord(program, logging.CRITICAL, "", 0, text, None, None)
        sys.stderr.write(f"{JsonLines().format(record)}\n")
    else:
        sys.stderr.write("".join(f"{program}: {line}\n" for line in text.splitlines()))


def no_more() -> Mapping[str, object]:
    """Return no further fields."""
    return {}


class JsonLines(logging.Formatter):
    """One JSON object a record, in ASCII: time, level, logger, message, process, and a traceback if there is one.

    Whatever a message holds, the line is a valid one of bounded length: what is too long is cut, and says so; what
    UTF-8 cannot carry is shown escaped; arguments that do not fit their message are shown beside it.

    Args:
        more: gives further fields of a line that is written now.
    """

    def __init__(self, more: Callable[[], Mapping[str, object]] = no_more) -> None:
        super().__init__()
        self._more = more

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        fields: dict[str, object] = {
            "time": utc_time(record),
            "level": record.levelname,
            "logger": _cut(record.name, _MOST_FIELD_CHARACTERS),
            "message": _cut(_message(record), MOST_MESSAGE_CHARACTERS),
            "process": record.process,
        }
        for name, value in self._more().items():
            fields[name] = _cut(value, _MOST_FIELD_CHARACTERS) if isinstance(value, str) else value
        if record.exc_info:
            fields["traceback"] = _cut_middle(self._traceback(record), MOST_TRACEBACK_CHARACTERS)
        return json.dumps(fields)

    def _traceback(self, record: logging.LogRecord) -> str:
        try:
            return "" if record.exc_info is None else self.formatException(record.exc_info)
        except Exception as error:  # noqa: BLE001 - the exception's own code may fail
            return f"(it cannot be shown: {type(error).__name__})"


def utc_text(epoch_seconds: float) -> str:
    """Return a moment as all our programs write it: ISO 8601, UTC, milliseconds: ``2026-01-31T09:05:00.123Z``.

    Raises:
        ValueError, OverflowError, OSError: it is no date.
    """
    return datetime.fromtimestamp(epoch_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_time(record: logging.LogRecord) -> str:
    """Return a log record's moment; see ``utc_text``."""
    return utc_text(record.created)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - a line that says less is better than none
        return f"{record.msg!s} (its arguments do not fit: {type(error).__name__})"


def _cut(text: str, room: int) -> str:
    if len(text) > room:
        text = f"{text[:room]}… ({len(text)} characters)"
    return _sendable(text)


def _cut_middle(text: str, room: int) -> str:
    """Keep the beginning, and the end, where the error is."""
    if len(text) > room:
        text = f"{text[: room // 4]}\n… ({len(text)} characters)\n{text[-(room - room // 4) :]}"
    return _sendable(text)


def _sendable(text: str) -> str:
    """Return a text as UTF-8 can carry it: undecodable bytes are halves of surrogates, which JSON readers refuse."""
    return text.encode("utf-8", "backslashreplace").decode()


def _own_stderr() -> TextIO | None:
    """Return a stream to stderr that stays open when a job closes ``sys.stderr``; None if there is no stderr."""
    try:
        return open(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    except OSError:
        return None
