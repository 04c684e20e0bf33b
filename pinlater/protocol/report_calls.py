"""The calls of the clients about workers, failures and statistics; rows as in ``operations``."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.model.statistics import StatisticsKind
from pinlater.model.workers import WorkerReport
from pinlater.protocol import messages
from pinlater.protocol.conversion.messages import CANCELLED
from pinlater.protocol.conversion.statistics import FAILURE_GROUP, STATISTICS
from pinlater.protocol.conversion.values import milliseconds, nothing, several
from pinlater.protocol.conversion.workers import WORKER
from pinlater.protocol.internal_calls import InternalCalls
from pinlater.protocol.operation import Arguments, addition


class ReportCalls(InternalCalls):
    """The part of ``Calls`` for which the original service has nothing similar."""

    # Workers

    @addition("getCancelledJobs", CANCELLED.record, may_wait=True)
    def cancelled_jobs(self, since_ms: int = 0, *, wait: float = 0.0) -> Arguments:
        """Return the running jobs that were asked to stop recently, whichever worker runs them.

        Args:
            since_ms: ``asked_ms`` of the last answer; 0 in the first call.
            wait: seconds to wait until there is one; this time is added to the call's time-out.
        """
        return (messages.PinLaterCancelledJobsRequest(since_ms, milliseconds(wait) or None),)

    @addition("reportWorker", nothing)
    def report_worker(self, report: WorkerReport, keep: float) -> Arguments:
        """Store a worker's report, replacing its last one.

        Args:
            report: the report; ``reported_ms`` is not sent.
            keep: seconds for which it is valid without another report, at most a day; 0: the worker has ended.

        Raises:
            UnknownError: the report is too large or contains impossible values.
        """
        return (messages.PinLaterReportWorkerRequest(WORKER.struct(report), milliseconds(keep)),)

    @addition("getWorkers", WORKER.records)
    def workers(self) -> Arguments:
        """Return the latest report of each worker, including idle ones, sorted by host."""
        return ()

    # Failures

    @addition("getFailureGroups", FAILURE_GROUP.records)
    def failure_groups(self, queues: Iterable[str] = (), *, limit: int = 200) -> Arguments:
        """Return how the last attempts of jobs have failed, grouped by class and error, the largest group first.

        Jobs are in a group while they are FAILED, or PENDING for another attempt: until they succeed, are cancelled,
        or are retried by hand.

        Args:
            queues: names of queues; empty: all queues.
            limit: maximum number of groups.
        """
        return (messages.PinLaterFailureGroupsRequest(several(queues) or None, limit),)

    # Statistics

    @addition("getStatistics", STATISTICS.records)
    def statistics(
        self,
        kind: StatisticsKind,
        *,
        resolution: int,
        since_ms: int,
        until_ms: int | None = None,
        queues: Iterable[str] = (),
        name: str | None = None,
    ) -> Arguments:
        """Return what happened in past minutes or hours, in chronological order.

        Periods in which nothing happened are left out; the last one may not be over yet. Servers write every 5 seconds;
        workers report on classes every few seconds. Minutes are kept for 26 hours, hours for 38 days.

        Args:
            kind: whether to return statistics of queues, of their job classes or of their failure groups.
            resolution: length of a period in seconds, 60 or 3600.
            since_ms: a time within the first period, epoch milliseconds.
            until_ms: time before which the last period began, epoch milliseconds; None: now.
            queues: names of queues; the empty name stands for all queues together. No names: each queue separately.
            name: name of a class, or id of a failure group; None: any.

        Raises:
            UnknownError: there would be more than 20,000 entries; ask for less time or fewer queues.
        """
        names = several(queues) or None
        return (messages.PinLaterStatisticsRequest(int(kind), resolution, since_ms, until_ms, names, name),)
