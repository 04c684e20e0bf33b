"""Records that the client's calls take and return, importable from here as ever; they live in ``pinlater.model``."""

from pinlater.model.records import (
    SILENT_SECONDS,
    Ack,
    Acks,
    Checkpoint,
    ClaimedJob,
    JobInfo,
    NewJob,
    Page,
    QueueSettings,
    RunningJob,
    UnknownJobs,
    WorkerProcess,
    WorkerReport,
)

__all__ = [
    "SILENT_SECONDS",
    "Ack",
    "Acks",
    "Checkpoint",
    "ClaimedJob",
    "JobInfo",
    "NewJob",
    "Page",
    "QueueSettings",
    "RunningJob",
    "UnknownJobs",
    "WorkerProcess",
    "WorkerReport",
]
