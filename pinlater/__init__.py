"""PinLater: an asynchronous job system.

Jobs are typed records; a client enqueues them, a server keeps them, workers run them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pinlater.errors import (
    BodyInvalid,
    BodyTooLarge,
    ClaimLost,
    Discard,
    EventInvalid,
    EventTimeout,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobGone,
    JobInterrupted,
    JobSleeps,
    JobStalled,
    JobTimeout,
    JobUnfinished,
    JobWasCancelled,
    JoinTimeout,
    PinLaterError,
    Retry,
    SagaUndone,
    StepMismatch,
    StepTimeout,
    UndoFailed,
)

if TYPE_CHECKING:
    from pinlater.client import AsyncClient, Client, JobHandle, TlsFiles
    from pinlater.jobs.context import JobContext
    from pinlater.jobs.job import Job, RawJob
    from pinlater.jobs.middleware import Middleware
    from pinlater.jobs.retrying import retrying, timed
    from pinlater.model.backoff import Backoff, Constant, Exponential, Linear
    from pinlater.model.state import JobState

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Backoff",
    "BodyInvalid",
    "BodyTooLarge",
    "ClaimLost",
    "Client",
    "Constant",
    "Discard",
    "EventInvalid",
    "EventTimeout",
    "Exponential",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobExpired",
    "JobFailed",
    "JobGone",
    "JobHandle",
    "JobInterrupted",
    "JobSleeps",
    "JobStalled",
    "JobState",
    "JobTimeout",
    "JobUnfinished",
    "JobWasCancelled",
    "JoinTimeout",
    "Linear",
    "Middleware",
    "PinLaterError",
    "RawJob",
    "Retry",
    "SagaUndone",
    "StepMismatch",
    "StepTimeout",
    "TlsFiles",
    "UndoFailed",
    "__version__",
    "retrying",
    "timed",
]

_MODULES = {
    "client": "AsyncClient Client JobHandle TlsFiles",
    "jobs.context": "JobContext",
    "jobs.job": "Job RawJob",
    "jobs.middleware": "Middleware",
    "jobs.retrying": "retrying timed",
    "model.backoff": "Backoff Constant Exponential Linear",
    "model.state": "JobState",
}
"""Module within ``pinlater`` -> the names that are imported from it on first use."""

_HOMES = {name: f"pinlater.{module}" for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers would take any name as one of this module

    def __getattr__(name: str) -> Any:
        """Import a name on first use: modules of job classes need no Thrift, and servers and most commands no jobs."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
