"""PinLater: an asynchronous job system.

Jobs are typed records; a client enqueues them, a server keeps them, workers run them.
"""

from pinlater.backoff import Backoff, Constant, Exponential, Linear
from pinlater.context import JobContext
from pinlater.errors import Discard, JobInterrupted, PinLaterError, Retry
from pinlater.job import Job, RawJob

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "Constant",
    "Discard",
    "Exponential",
    "Job",
    "JobContext",
    "JobInterrupted",
    "Linear",
    "PinLaterError",
    "RawJob",
    "Retry",
    "__version__",
]
