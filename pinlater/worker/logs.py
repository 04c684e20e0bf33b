"""Log lines of the worker on stderr: time, level, process, and the job that is running."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TextIO

from pinlater.errors import JobTimeout
from pinlater.logs import JsonFormatter, configure_logging, no_extra_fields, utc_time

_LINE = "%(asctime)s %(levelname)s %(process)d%(job)s %(message)s"


class Running:
    """What runs.

    Attributes:
        job: its ``str``, or its ``log_fields``, are asked for only when a line is written. None between jobs.
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
        super().__init__(_LINE)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - inherited
        """Return the time in UTC, to the millisecond."""
        return utc_time(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        job = running.get().job
        record.job = "" if job is None else f" [{job}]"
        return super().format(record)


class LineHandler(logging.StreamHandler[TextIO]):
    """Bears with the time limit of a job, which is an exception that may break in anywhere."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line, and let go of the lock whatever happens: other threads could not log any more.

        The usual handler does not, if the exception comes behind the line that takes the lock.
        """
        if not self.filter(record):
            return False
        with self.lock or nullcontext():  # one step for the interpreter
            self.emit(record)
        return True

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Complain of what hinders logging, which a time limit is not: the job must hear of it."""
        if isinstance(sys.exception(), JobTimeout):
            raise  # noqa: PLE0704 - it is called where the exception is handled
        super().handleError(record)


def job_fields() -> Mapping[str, object]:
    """Return what a JSON line says of the running job: descriptor, queue, class, and numbers of attempts."""
    fields: Mapping[str, object] = getattr(running.get().job, "log_fields", None) or no_extra_fields()
    return fields


def set_up_logs(level: str, log_format: str = "plain") -> None:
    """Let the whole program log to stderr.

    Args:
        level: least severe to show, such as ``INFO``.
        log_format: ``plain`` or ``json``.
    """
    configure_logging(level, JsonFormatter(job_fields) if log_format == "json" else JobFormatter(), LineHandler)
