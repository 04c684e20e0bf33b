"""Log records of the server on standard error: a plain line each, or a JSON object a line."""

from __future__ import annotations

import logging

from pinlater.logs import JsonLines, set_up, utc_time


def set_up_logs(level: str, log_format: str) -> None:
    """Send all records to standard error.

    Args:
        level: least severe to show, such as ``INFO``.
        log_format: ``plain`` or ``json``.
    """
    set_up(level, JsonLines() if log_format == "json" else PlainLines())


class PlainLines(logging.Formatter):
    """``time level logger: message``; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - inherited
        """Return the time in UTC, to the millisecond."""
        return utc_time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - inherited
        """Keep a message on one line: parts of it may come from clients, who could forge records otherwise."""
        record.message = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in record.message)
        return super().formatMessage(record)
