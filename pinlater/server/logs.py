"""Configure the log of the server on standard error: plain lines, or one JSON object a line."""

from __future__ import annotations

import logging

from pinlater.logs import JsonFormatter, UtcFormatter, configure_logging
from pinlater.server.log_rate_limit import LogRateLimit


def set_up_logs(level: str, log_format: str) -> None:
    """Log to standard error.

    Args:
        level: lowest to log, such as ``INFO``.
        log_format: ``plain`` or ``json``.
    """
    configure_logging(level, JsonFormatter() if log_format == "json" else PlainFormatter())
    # When it can open no more files, it logs each connection that it could have accepted: thousands a second.
    logging.getLogger("asyncio").addFilter(LogRateLimit(spares_errors=False))


class PlainFormatter(UtcFormatter):
    """Formats ``time level logger: message``, followed by the lines of a traceback, if any."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - inherited
        """Keep the message on one line: parts of it may come from clients, which could forge records otherwise."""
        record.message = "".join(char if char.isprintable() else repr(char)[1:-1] for char in record.message)
        return super().formatMessage(record)
