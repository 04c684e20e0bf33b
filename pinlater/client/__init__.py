"""Clients of the service: ``Client``, ``AsyncClient``, the records they return, and the sets of servers they use.

Names are imported on first use, so ``pinlater --help`` does not load Thrift.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinlater.client.address import Address
    from pinlater.client.async_client import AsyncClient
    from pinlater.client.async_handle import AsyncJobHandle
    from pinlater.client.client import Client
    from pinlater.client.connection import Connection
    from pinlater.client.fair_scan import FairScan
    from pinlater.client.handle import JobHandle
    from pinlater.client.moving import Move
    from pinlater.client.periodic import PeriodicJob, PeriodicJobs
    from pinlater.client.servers import ServerSet
    from pinlater.client.tls import TlsFiles
    from pinlater.jobs.batch import Batch, BatchOutcome
    from pinlater.jobs.enqueue_options import EnqueueManyOptions, EnqueueOptions
    from pinlater.model.attempts import Ack, Acks, Checkpoint, ClaimedJob
    from pinlater.model.jobs import JobInfo, NewJob, Page, missing_shards
    from pinlater.model.keys import JobKey
    from pinlater.model.queues import QueueSettings
    from pinlater.model.statistics import Spread, Statistics, StatisticsKind
    from pinlater.model.unique import UniqueRule
    from pinlater.model.workers import JobClass, QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport

_MODULES = {
    "client.address": "Address",
    "client.async_client": "AsyncClient",
    "client.async_handle": "AsyncJobHandle",
    "client.client": "Client",
    "client.connection": "Connection",
    "client.fair_scan": "FairScan",
    "client.handle": "JobHandle",
    "client.moving": "Move",
    "client.periodic": "PeriodicJob PeriodicJobs",
    "client.servers": "ServerSet",
    "client.tls": "TlsFiles",
    "jobs.batch": "Batch BatchOutcome",
    "jobs.enqueue_options": "EnqueueManyOptions EnqueueOptions",
    "model.attempts": "Ack Acks Checkpoint ClaimedJob",
    "model.jobs": "JobInfo NewJob Page missing_shards",
    "model.keys": "JobKey",
    "model.queues": "QueueSettings",
    "model.statistics": "Spread Statistics StatisticsKind",
    "model.unique": "UniqueRule",
    "model.workers": "JobClass QueueLoad RunningJob UnknownJobs WorkerProcess WorkerReport",
}
"""Module within ``pinlater`` -> the names from it."""

_HOMES = {name: f"pinlater.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Ack",
    "Acks",
    "Address",
    "AsyncClient",
    "AsyncJobHandle",
    "Batch",
    "BatchOutcome",
    "Checkpoint",
    "ClaimedJob",
    "Client",
    "Connection",
    "EnqueueManyOptions",
    "EnqueueOptions",
    "FairScan",
    "JobClass",
    "JobHandle",
    "JobInfo",
    "JobKey",
    "Move",
    "NewJob",
    "Page",
    "PeriodicJob",
    "PeriodicJobs",
    "QueueLoad",
    "QueueSettings",
    "RunningJob",
    "ServerSet",
    "Spread",
    "Statistics",
    "StatisticsKind",
    "TlsFiles",
    "UniqueRule",
    "UnknownJobs",
    "WorkerProcess",
    "WorkerReport",
    "missing_shards",
]


if not TYPE_CHECKING:  # type checkers would take any name as one of this module

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
