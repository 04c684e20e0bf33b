"""Log to standard error, for all our programs, whatever becomes of it."""

from __future__ import annotations

import io
import json
import logging
import os
import select
import stat
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

MOST_MESSAGE_CHARACTERS = 8_000
"""Longest message in a JSON line: log collectors cut or drop long lines, and a cut object is not valid JSON."""
MOST_TRACEBACK_CHARACTERS = 16_000
_MOST_FIELD_CHARACTERS = 500
PATIENCE_SECONDS = 2.0
"""How long to wait for whoever reads a pipe, a socket or a terminal; then text is dropped until there is room again."""
_STDERR = 2


class LossyText(io.TextIOWrapper):
    """A stream to an open file descriptor, flushed after each line; nothing that is written to it raises `OSError`.

    A disk may be full, and the reader of a pipe may have left, or hang. A server or a master that waited for it would
    do nothing else any more, and a job that failed because of a line would do its work again.

    Args:
        descriptor: of the file; it is not closed with the stream.
        encoding: of the text.
        errors: what to do with text that it cannot encode.
    """

    def __init__(self, descriptor: int, encoding: str, errors: str | None) -> None:
        self._file = _LossyFile(descriptor)
        super().__init__(io.BufferedWriter(self._file), encoding=encoding, errors=errors, line_buffering=True)

    @property
    def unread_bytes(self) -> int:
        """How many bytes were dropped because nobody read what was written before, since `forget_unread`."""
        return self._file.unread_bytes

    def forget_unread(self) -> None:
        """Count from 0 again."""
        self._file.unread_bytes = 0


class _LossyFile(io.FileIO):
    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.unread_bytes = 0
        self._has_reader = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._patience_seconds = PATIENCE_SECONDS
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, data: Any, /) -> int:
        view = memoryview(data)
        if self._has_reader and not self._await_room():
            return self._drop(view.nbytes)
        try:
            # A pipe that has room takes so much without making its writer wait.
            written: int | None = super().write(view[: select.PIPE_BUF] if self._has_reader else view)
        except OSError:
            return view.nbytes
        # None: it is full, and whoever opened it wants writers not to wait.
        return self._drop(view.nbytes) if written is None else written

    def _await_room(self) -> bool:
        has_room = bool(self._poll.poll(self._patience_seconds * 1000))
        self._patience_seconds = PATIENCE_SECONDS if has_room else 0.0
        return has_room

    def _drop(self, count: int) -> int:
        self.unread_bytes += count
        return count


class StderrHandler(logging.StreamHandler[TextIO]):
    """Says, when the reader of a `LossyText` is back, how much it has missed."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        missed = self._unread_bytes
        super().emit(record)
        if missed and self._unread_bytes == missed and isinstance(self.stream, LossyText):
            self.stream.forget_unread()
            text = "%d bytes of the log before this line were dropped, since nobody read standard error in time"
            super().emit(logging.LogRecord(__name__, logging.WARNING, "", 0, text, (missed,), None))

    @property
    def _unread_bytes(self) -> int:
        return self.stream.unread_bytes if isinstance(self.stream, LossyText) else 0


def configure_logging(
    level: str,
    formatter: logging.Formatter,
    new_handler: Callable[[TextIO], logging.Handler] = StderrHandler,
) -> None:
    """Log everything to standard error; call it before the program opens what it keeps open.

    Args:
        level: lowest level to log, such as ``INFO``.
        formatter: formats the records.
        new_handler: creates the handler for a stream.
    """
    _open_missing_streams()
    # A stream of its own, which stays open if a job closes ``sys.stderr``.
    handler = new_handler(LossyText(_STDERR, encoding="utf-8", errors="backslashreplace"))
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


def _open_missing_streams() -> None:
    """Open ``/dev/null`` as those of standard input, output and error that are closed.

    Otherwise their numbers would be those of the next files, such as a socket that listens, and whoever redirects a
    standard stream would close that.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
