"""Structs of worker reports <-> records."""

from __future__ import annotations

from pinlater.model.workers import JobClass, QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport
from pinlater.protocol import messages
from pinlater.protocol.conversion.record_map import ANSWERED, RARE, Conversion, RecordMap

_RUNNING_JOB = RecordMap(messages.PinLaterRunningJob, RunningJob)
_UNKNOWN = RecordMap(messages.PinLaterUnknownJobs, UnknownJobs)
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
        "unknownJobs": _UNKNOWN.rare,
        "queueLoads": RecordMap(messages.PinLaterQueueLoad, QueueLoad).rare,
        "jobClasses": RecordMap(messages.PinLaterJobClass, JobClass, {"bodySchema": RARE}).rare,
        "lostAtTimestampMillis": ANSWERED,
        "unfittingJobs": _UNKNOWN.rare,
        "queuelessJobs": _UNKNOWN.rare,
        "cannotStart": RARE,
    },
)

_LOADS_FIELD = b"\x0f\x00\x0b\x0c"
"""The beginning of field 11, ``queueLoads``, a list of structs."""


def may_have_loads(encoded: bytes) -> bool:
    """Tell without decoding whether an encoded report may have queue loads; False is certain."""
    return _LOADS_FIELD in encoded
