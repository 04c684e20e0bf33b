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
    from pinlater.model.jobs import JobInfo, NewJob, Page
    from pinlater.model.keys import JobKey
    from pinlater.model.queues import QueueSettings
    from pinlater.model.statistics import Spread, Statistics, StatisticsKind
    from pinlater.model.unique import UniqueRule
    from pinlater.model.workers import JobClass, QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport

_HOMES = {
    "Ack": "records",
    "Acks": "records",
    "Address": "address",
    "AsyncClient": "async_client",
    "AsyncJobHandle": "async_handle",
    "Batch": "base_client",
    "BatchOutcome": "base_client",
    "Checkpoint": "records",
    "ClaimedJob": "records",
    "Client": "client",
    "Connection": "connection",
    "EnqueueManyOptions": "jobs",
    "EnqueueOptions": "jobs",
    "FairScan": "fair_scan",
    "JobClass": "records",
    "JobHandle": "handle",
    "JobInfo": "records",
    "JobKey": "records",
    "Move": "moving",
    "NewJob": "records",
    "UniqueRule": "records",
    "Page": "records",
    "PeriodicJob": "periodic",
    "PeriodicJobs": "periodic",
    "QueueLoad": "records",
    "QueueSettings": "records",
    "RunningJob": "records",
    "ServerSet": "servers",
    "Spread": "records",
    "Statistics": "records",
    "StatisticsKind": "records",
    "TlsFiles": "tls",
    "UnknownJobs": "records",
    "WorkerProcess": "records",
    "WorkerReport": "records",
}

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
]


if not TYPE_CHECKING:  # type checkers would take any name as one of this module

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
