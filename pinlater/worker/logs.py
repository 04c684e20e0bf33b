"""Log lines on stderr: time, level, process, and the job that is running."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TextIO

_LINE = "%(asctime)s.%(msecs)03d %(levelname)s %(process)d%(job)s %(message)s"


_STDERR = 2


class Running:
    """What runs.

    Attributes:
        job: its ``str`` is asked for only when a line is written. None between jobs.
    """

    __slots__ = ("job",)

    def __init__(self, job: object = None) -> None:
        self.job = job


alone = Running()
"""Of a process that runs one job at a time. Whoever runs it says so here, which is one store before it and one after;
lines of threads that the job has started carry it, too."""

running: ContextVar[Running] = ContextVar("running", default=alone)
"""Where several jobs run at once, each has a ``Running`` of its own in its thread's or task's context."""


class JobFormatter(logging.Formatter):
    """Puts the running job on every line, also on those of libraries that know nothing of jobs."""

    def __init__(self) -> None:
        super().__init__(_LINE, "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        job = running.get().job
        record.job = "" if job is None else f" [{job}]"
        return super().format(record)


def _own_stderr() -> TextIO | None:
    """Return a stream to stderr that stays open when a job closes ``sys.stderr``; None if there is no stderr."""
    try:
        return open(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    except OSError:
        return None


def set_up(level: str) -> None:
    """Let the whole program log to stderr from ``level`` up."""
    handler = logging.StreamHandler(_own_stderr())
    handler.setFormatter(JobFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
