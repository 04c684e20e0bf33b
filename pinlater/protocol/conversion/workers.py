"""Structs of what workers report of themselves <-> records."""

from __future__ import annotations

from pinlater.model.workers import JobClass, QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport
from pinlater.protocol import messages
from pinlater.protocol.conversion.record_map import ANSWERED, RARE, Conversion, RecordMap

_RUNNING_JOB = RecordMap(messages.PinLaterRunningJob, RunningJob)
_PROCESS = RecordMap(
    messages.PinLaterWorkerProcess,
    WorkerProcess,
    {"queueNames": Conversion(lambda names: names or [], list), "runningJobs": _RUNNING_JOB.several},
)
WORKER = RecordMap(
    messages.PinLaterWorker,
    WorkerReport,
    {
        "processes": _PROCESS.several,
        "reportedAtTimestampMillis": ANSWERED,
        "unknownJobs": RecordMap(messages.PinLaterUnknownJobs, UnknownJobs).rare,
        "queueLoads": RecordMap(messages.PinLaterQueueLoad, QueueLoad).rare,
        "jobClasses": RecordMap(messages.PinLaterJobClass, JobClass, {"bodySchema": RARE}).rare,
        "lostAtTimestampMillis": ANSWERED,
    },
)

_LOADS_FIELD = b"\x0f\x00\x0b\x0c"
"""How a list of structs begins that is field 11, ``queueLoads``."""


def may_have_loads(encoded: bytes) -> bool:
    """Tell, without decoding it, whether an encoded report may have loads; if not, it has none."""
    return _LOADS_FIELD in encoded
