"""The calls of the clients about workers, and about what has happened: rows as in ``operations``."""

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
    """The part of ``Calls`` that the original does not have at all."""

    # Workers

    @addition("getCancelledJobs", CANCELLED.record, may_wait=True)
    def cancelled_jobs(self, since_ms: int = 0, *, wait: float = 0.0) -> Arguments:
        """Return the running jobs that were asked to stop of late, whoever runs them.

        Args:
            since_ms: ``asked_ms`` of the last answer; 0 at first.
            wait: seconds to wait until there is one; the call's time-out is so much longer.
        """
        return (messages.PinLaterCancelledJobsRequest(since_ms, milliseconds(wait) or None),)

    @addition("reportWorker", nothing)
    def report_worker(self, report: WorkerReport, keep: float) -> Arguments:
        """Store a worker's report in the place of its last one, for everybody to see.

        Args:
            report: of the worker; ``reported_ms`` is not sent.
            keep: seconds for which it is believed without another one, at most a day; 0: the worker has ended.

        Raises:
            UnknownError: the report is too large or says what cannot be.
        """
        return (messages.PinLaterReportWorkerRequest(WORKER.struct(report), milliseconds(keep)),)

    @addition("getWorkers", WORKER.records)
    def workers(self) -> Arguments:
        """Return the latest report of each worker, by host; idle ones, too."""
        return ()

    # Failures

    @addition("getFailureGroups", FAILURE_GROUP.records)
    def failure_groups(self, queues: Iterable[str] = (), *, limit: int = 200) -> Arguments:
        """Return how the last attempts of jobs have failed, grouped by class and error, the largest group first.

        Jobs are in a group while they are FAILED, or PENDING for another attempt: until they succeed, are cancelled,
        or are retried by hand.

        Args:
            queues: names of queues; none: all queues.
            limit: at most so many groups.
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
        """Return what happened in past minutes or hours, in the order of time.

        Periods in which nothing happened are left out; the last one may not be over yet. Servers write every 5 seconds,
        workers tell them about classes every few seconds. Minutes are kept for 26 hours, hours for 38 days.

        Args:
            kind: whether of queues, of their job classes or of their failure groups.
            resolution: seconds of a period, ``MINUTE`` or ``HOUR``.
            since_ms: epoch milliseconds in the first period.
            until_ms: epoch milliseconds before which the last one began; None is now.
            queues: names; an empty one stands for all queues together. None given: all queues, each by itself.
            name: of a class or failure group; None is any.

        Raises:
            UnknownError: there are more than 20,000; ask for less time or fewer queues.
        """
        names = several(queues) or None
        return (messages.PinLaterStatisticsRequest(int(kind), resolution, since_ms, until_ms, names, name),)
