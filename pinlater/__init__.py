"""PinLater: an asynchronous job system.

Jobs are typed records; a client enqueues them, a server keeps them, workers run them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pinlater.errors import (
    ClaimLost,
    Discard,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobInterrupted,
    JobSleeps,
    JobStalled,
    JobTimeout,
    JobWasCancelled,
    PinLaterError,
    Retry,
    SagaUndone,
    StepMismatch,
    StepTimeout,
    UndoFailed,
)
from pinlater.jobs.context import JobContext
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.middleware import Middleware
from pinlater.jobs.retrying import retrying, timed
from pinlater.model.backoff import Backoff, Constant, Exponential, Linear

if TYPE_CHECKING:
    from pinlater.client import AsyncClient, Client, JobHandle, TlsFiles
    from pinlater.model.state import JobState

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Backoff",
    "ClaimLost",
    "Client",
    "Constant",
    "Discard",
    "Exponential",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobExpired",
    "JobFailed",
    "JobHandle",
    "JobInterrupted",
    "JobSleeps",
    "JobStalled",
    "JobState",
    "JobTimeout",
    "JobWasCancelled",
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

_LATER = {
    "AsyncClient": "pinlater.client",
    "Client": "pinlater.client",
    "JobHandle": "pinlater.client",
    "JobState": "pinlater.model.state",
    "TlsFiles": "pinlater.client",
}


def __getattr__(name: str) -> Any:
    """Import the client when it is asked for: a module of job classes need not load Thrift."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
