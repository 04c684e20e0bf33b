"""The worker's log lines on stderr: time, level, process and running job."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from contextvars import ContextVar

from pinlater.errors import JobTimeout, StepTimeout
from pinlater.logs import JsonFormatter, StderrHandler, UtcFormatter, configure_logging, no_extra_fields

_LINE = "%(asctime)s %(levelname)s %(process)d%(job)s %(message)s"


class CurrentJob:
    """Holds the job that log lines name.

    Attributes:
        job: the running job's context, formatted only when a line is written; None between jobs.
    """

    __slots__ = ("job",)

    def __init__(self, job: object = None) -> None:
        self.job = job


solo_job = CurrentJob()
"""Current job of a process that runs one at a time. Setting it costs one assignment before and one after the job;
log lines of threads that the job starts name it, too."""

current_job: ContextVar[CurrentJob] = ContextVar("current_job", default=solo_job)
"""Where several jobs run at once, each thread or task has a separate ``CurrentJob`` in its context."""


class JobFormatter(UtcFormatter):
    """Adds the running job to every line, including those of libraries."""

    def __init__(self) -> None:
        super().__init__(_LINE)

    def format(self, record: logging.LogRecord) -> str:
        """Format the line with the running job."""
        job = current_job.get().job
        record.job = "" if job is None else f" [{job}]"
        return super().format(record)


class LineHandler(StderrHandler):
    """A stream handler that survives the exception of a job's time limit, which may be raised anywhere."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line, and release the lock whatever happens: otherwise other threads could not log any more.

        The standard handler leaves it locked if the exception comes right after it was acquired.
        """
        if not self.filter(record):
            return False
        with self.lock or nullcontext():  # the interpreter acquires it and enters the block in one step
            self.emit(record)
        return True

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Report a logging error as usual, but re-raise the exception of a time limit, which is meant for the job."""
        if isinstance(sys.exception(), JobTimeout | StepTimeout):
            raise  # noqa: PLE0704 - this method is called where the exception is handled
        super().handleError(record)


def job_fields() -> Mapping[str, object]:
    """Return the running job's fields for JSON lines: descriptor, queue, class and attempt numbers."""
    fields: Mapping[str, object] = getattr(current_job.get().job, "log_fields", None) or no_extra_fields()
    return fields


def set_up_logs(level: str, log_format: str = "plain") -> None:
    """Set up logging to stderr for the whole program.

    Args:
        level: minimum level, such as ``INFO``.
        log_format: ``plain`` or ``json``.
    """
    configure_logging(level, JsonFormatter(job_fields) if log_format == "json" else JobFormatter(), LineHandler)
