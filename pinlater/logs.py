"""Configure logging to standard error, for all our programs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO

MOST_MESSAGE_CHARACTERS = 8_000
"""Longest message in a JSON line: log collectors cut or drop long lines, and a cut object is not valid JSON."""
MOST_TRACEBACK_CHARACTERS = 16_000
_MOST_FIELD_CHARACTERS = 500
_STDERR = 2


class StderrHandler(logging.StreamHandler[TextIO]):
    """Drops lines that cannot be written, as on a full disk.

    The standard handler would report that on stderr, too. The interpreter would try to write the report at its end, and
    exit with 120.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Report an error of logging as usual, but not of writing."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def configure_logging(
    level: str,
    formatter: logging.Formatter,
    new_handler: Callable[[TextIO | None], logging.Handler] = StderrHandler,
) -> None:
    """Log everything to standard error.

    Args:
        level: lowest level to log, such as ``INFO``.
        formatter: formats the records.
        new_handler: creates the handler for a stream.
    """
    handler = new_handler(_own_stderr())
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)


def report_startup_error(program: str, text: str, *, as_json: bool | None = None) -> None:
    """Write to standard error why a program cannot start, without a traceback.

    Args:
        program: name of the program.
        text: the reason, in one or more lines.
        as_json: whether to write a JSON line; None: only if this process logs JSON.
    """
    if as_json is None:
        as_json = any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)
    if as_json:
        record = logging.LogRecord(program, logging.CRITICAL, "", 0, text, None, None)
        sys.stderr.write(f"{JsonFormatter().format(record)}\n")
    else:
        sys.stderr.write("".join(f"{program}: {line}\n" for line in text.splitlines()))


def no_extra_fields() -> Mapping[str, object]:
    """Return no extra fields."""
    return {}


class UtcFormatter(logging.Formatter):
    """Writes times in UTC, to the millisecond."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - inherited
        """Format the time of a log record; see ``utc_text``."""
        return utc_text(record.created)


class JsonFormatter(UtcFormatter):
    """Formats a record as an ASCII JSON object: time, level, logger, message, process, and a traceback if any.

    The line is always valid and of bounded length: longer text is cut and marked, text that UTF-8 cannot encode is
    escaped, and arguments that do not fit their message are reported beside it.

    Args:
        extra_fields: returns further fields for the line.
    """

    def __init__(self, extra_fields: Callable[[], Mapping[str, object]] = no_extra_fields) -> None:
        super().__init__()
        self._extra_fields = extra_fields

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON object of a record."""
        fields: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": _cut(record.name, _MOST_FIELD_CHARACTERS),
            "message": _cut(_message(record), MOST_MESSAGE_CHARACTERS),
            "process": record.process,
        }
        for name, value in self._extra_fields().items():
            fields[name] = _cut(value, _MOST_FIELD_CHARACTERS) if isinstance(value, str) else value
        if record.exc_info:
            fields["traceback"] = _cut_middle(self._traceback(record), MOST_TRACEBACK_CHARACTERS)
        return json.dumps(fields)

    def _traceback(self, record: logging.LogRecord) -> str:
        try:
            return "" if record.exc_info is None else self.formatException(record.exc_info)
        except Exception as error:  # noqa: BLE001 - the exception's own code may fail
            return f"(the traceback cannot be shown: {type(error).__name__})"


def utc_text(epoch_seconds: float) -> str:
    """Format a time as all our programs do: ISO 8601 in UTC with milliseconds, such as ``2026-01-31T09:05:00.123Z``.

    Raises:
        ValueError, OverflowError, OSError: it is outside the range of dates.
    """
    return datetime.fromtimestamp(epoch_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - an incomplete line is better than none
        return f"{record.msg!s} (its arguments do not fit: {type(error).__name__})"


def _cut(text: str, most: int) -> str:
    if len(text) > most:
        text = f"{text[:most]}… ({len(text)} characters)"
    return _escaped(text)


def _cut_middle(text: str, most: int) -> str:
    """Cut the middle of a traceback: the error is at its end."""
    if len(text) > most:
        text = f"{text[: most // 4]}\n… ({len(text)} characters)\n{text[-(most - most // 4) :]}"
    return _escaped(text)


def _escaped(text: str) -> str:
    """Escape what UTF-8 cannot encode: undecodable bytes become lone surrogates, which JSON parsers refuse."""
    return text.encode("utf-8", "backslashreplace").decode()


def _own_stderr() -> TextIO | None:
    """Open a stream to stderr that stays open if a job closes ``sys.stderr``; return None if there is no stderr."""
    try:
        return open(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    except OSError:
        return None
