"""Log lines on stderr: time, level, process, and the job that is running."""

from __future__ import annotations

import logging
import sys

_LINE = "%(asctime)s.%(msecs)03d %(levelname)s %(process)d%(job)s %(message)s"


class JobFormatter(logging.Formatter):
    """Puts the running job on every line, also on those of libraries that know nothing of jobs.

    Attributes:
        job: what runs; its ``str`` is asked for only when a line is written. None between jobs.
    """

    job: object = None

    def __init__(self) -> None:
        super().__init__(_LINE, "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        record.job = "" if self.job is None else f" [{self.job}]"
        return super().format(record)


formatter = JobFormatter()
"""The process's one; whoever runs a job says so here."""


def set_up(level: str) -> None:
    """Let the whole program log to stderr from ``level`` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
