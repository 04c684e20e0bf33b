"""Records that the client's calls take and return, importable from here; they are defined in ``pinlater.model``."""

from pinlater.model.attempts import Ack, Acks, Checkpoint, ClaimedJob
from pinlater.model.jobs import JobInfo, NewJob, Page, missing_shards
from pinlater.model.keys import JobKey
from pinlater.model.queues import QueueSettings
from pinlater.model.silence import SILENT_SECONDS
from pinlater.model.statistics import Spread, Statistics, StatisticsKind
from pinlater.model.unique import UniqueRule
from pinlater.model.workers import (
    JobClass,
    QueueLoad,
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
    "JobClass",
    "JobInfo",
    "JobKey",
    "NewJob",
    "Page",
    "QueueLoad",
    "QueueSettings",
    "RunningJob",
    "Spread",
    "Statistics",
    "StatisticsKind",
    "UniqueRule",
    "UnknownJobs",
    "WorkerProcess",
    "WorkerReport",
    "missing_shards",
]
