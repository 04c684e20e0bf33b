"""Log records on standard error: a plain line each, or a JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


def set_up_logs(level: str, log_format: str) -> None:
    """Send all records to standard error.

    Args:
        level: least severe to show, such as ``INFO``.
        log_format: ``plain`` or ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else PlainLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)


class PlainLines(logging.Formatter):
    """``time level logger: message``; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - inherited
        """Return the time in UTC, to the millisecond."""
        return _time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - inherited
        """Keep a message on one line: parts of it may come from clients, who could forge records otherwise."""
        record.message = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in record.message)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """One JSON object a record: time, level, logger, message, process, and a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
