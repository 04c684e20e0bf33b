"""Logs a lasting error once, not at each retry."""

from __future__ import annotations

import logging


class LogOnce:
    """Logs a warning when an error begins or changes.

    Args:
        log: logger for the warnings.
        text: format of a warning, with ``%s`` for the error.
    """

    def __init__(self, log: logging.Logger, text: str) -> None:
        self._log = log
        self._text = text
        self._last = ""

    def report(self, error: Exception) -> None:
        """Log the error, unless it is the same as the last one."""
        if str(error) != self._last:
            self._last = str(error)
            self._log.warning(self._text, error)

    def reset(self) -> None:
        """Log the next error even if it is the same."""
        self._last = ""
