"""A trouble that lasts: said when it begins, and when it becomes another one; not at each of the tries in between."""

from __future__ import annotations

import logging


class Complaint:
    """Says what goes wrong, in a log.

    Args:
        log: takes the warnings.
        text: of a warning, with a place for the error.
    """

    def __init__(self, log: logging.Logger, text: str) -> None:
        self._log = log
        self._text = text
        self._said = ""

    def say(self, error: Exception) -> None:
        """Warn, unless this was said last."""
        if str(error) != self._said:
            self._said = str(error)
            self._log.warning(self._text, error)

    def end(self) -> None:
        """The next one is a new trouble, even if it is the same."""
        self._said = ""
