"""What the keeper says to a server: one call after the other, each for many jobs of one queue."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pinlater.client.connection import Connection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallError, QueueNotFound, StaleClaims
from pinlater.protocol.messages import (
    PinLaterCheckpointJobRequest,
    PinLaterCheckpointJobsRequest,
    PinLaterJobAckInfo,
    PinLaterJobAckRequest,
    PinLaterLookupJobRequest,
    PinLaterReleaseClaimsRequest,
    RequestContext,
    arguments_of,
)
from pinlater.worker.claim_table.contact import Contact
from pinlater.worker.session.batch import queue_of
from pinlater.worker.session.connector import Connector

_CALL_SECONDS = 5.0
_MOST_JOBS = 1000

Claimed = tuple[str, str]
"""Descriptor and claim of a job."""


class Lost(NamedTuple):
    """A job whose attempt has ended with its process.

    Attributes:
        descriptor: of the job.
        claim: likewise.
        status: what is left in the job's custom status.
        delay_ms: milliseconds until the next attempt.
        is_final: there is no next attempt.
        ending: how it is counted; see ``tally.ENDINGS``.
    """

    descriptor: str
    claim: str
    status: str
    delay_ms: int
    is_final: bool
    ending: str = "crashed"


class Messenger:
    """Calls in the keeper's name. A queue that is gone needs nothing.

    All methods raise ``CallError`` or ``ServiceError`` if the server did not do as it was told.
    """

    def __init__(self, servers: ServerSet, name: str, contact: Contact | None = None) -> None:
        self._connector = Connector(servers, contact=contact)
        self._connection: Connection | None = None
        self._context = RequestContext(source=f"{name}:{secrets.token_hex(4)}")

    def renew(self, jobs: Iterable[Claimed]) -> set[Claimed]:
        """Let claims live longer; return those that have ended, as far as the server tells."""
        return {job for queue, part in _by_queue(jobs) for job in self._renew(queue, part)}

    def _renew(self, queue: str, jobs: Sequence[Claimed]) -> Iterator[Claimed]:
        stale = self._checkpoint(queue, jobs, tell_stale=True)
        times = Counter(descriptor for descriptor, _ in jobs) if stale else Counter()
        for job in jobs:
            descriptor, _ = job
            # A worker can hold a job under an old claim and under a new one; only one of them has ended.
            if descriptor in stale and (times[descriptor] == 1 or self._checkpoint(queue, [job], tell_stale=True)):
                yield job

    def give_back(self, jobs: Iterable[Claimed]) -> None:
        """Give jobs back, no attempt spent."""
        for queue, part in _by_queue(jobs):
            self._checkpoint(queue, part, move_to_pending=True)

    def _checkpoint(
        self, queue: str, jobs: Sequence[Claimed], *, move_to_pending: bool = False, tell_stale: bool | None = None
    ) -> Collection[str]:
        """Make a call; return the descriptors of jobs that were not ours, if that is to be told."""
        requests = [
            PinLaterCheckpointJobRequest(descriptor, moveToPending=move_to_pending, claimDescriptor=claim)
            for descriptor, claim in jobs
        ]
        everyone = [descriptor for descriptor, _ in jobs]
        try:
            request = PinLaterCheckpointJobsRequest(queue, requests, tellStale=tell_stale)
            return self._call("checkpointJobs", request, without_queue=everyone) or ()
        except StaleClaims as error:
            return error.job_descriptors

    def succeeded(self, jobs: Iterable[Claimed]) -> None:
        """Report successes."""
        for queue, part in _by_queue(jobs):
            infos = [PinLaterJobAckInfo(descriptor, claimDescriptor=claim) for descriptor, claim in part]
            self._call("ackDequeuedJobs", PinLaterJobAckRequest(queue, jobsSucceeded=infos))

    def failed(self, jobs: Iterable[Lost]) -> None:
        """Report failures."""
        for queue, part in _by_queue(jobs):
            infos = [
                PinLaterJobAckInfo(job.descriptor, job.status, job.delay_ms, job.claim, job.is_final or None)
                for job in part
            ]
            self._call("ackDequeuedJobs", PinLaterJobAckRequest(queue, jobsFailed=infos))

    def look(self, descriptor: str) -> tuple[str, bytes]:
        """Return a job's custom status and its body; both empty if it is not there any more."""
        found = self._call("lookupJobs", PinLaterLookupJobRequest([descriptor], includeBody=True)) or {}
        info = found.get(descriptor)
        return ("", b"") if info is None else (info.customStatus or "", info.body or b"")

    def note(self, job: Claimed, text: str) -> None:
        """Put a text in front of a job's custom status, where there is room even if the status is full."""
        descriptor, claim = job
        request = PinLaterCheckpointJobRequest(descriptor, prependCustomStatus=text, claimDescriptor=claim)
        self._call("checkpointJobs", PinLaterCheckpointJobsRequest(queue_of(descriptor), [request]))

    def release(self, queues: Sequence[str], source: str) -> Counter[str]:
        """Give back all that was claimed in the name of ``source``; return how many jobs of each queue these were."""
        return Counter(
            {queue: self._call("releaseClaims", PinLaterReleaseClaimsRequest(queue, source)) or 0 for queue in queues}
        )

    def _call(self, method: str, request: Any, without_queue: Any = None) -> Any:
        if self._connection is None or self._connection.is_stale():
            self._connection = self._connector.connect()
        try:
            reply = self._connection.call(method, arguments_of(method)(self._context, request), _CALL_SECONDS)
        except QueueNotFound:
            reply = without_queue
        except CallError:
            self._connector.contact.failed()
            raise
        self._connector.contact.heard()
        return reply


def _by_queue(jobs: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Sort jobs, whose first field is the descriptor, by queue, in parts that make no call too large."""
    queues: defaultdict[str, list[Any]] = defaultdict(list)
    for job in jobs:
        queues[queue_of(job[0])].append(job)
    for queue, found in queues.items():
        rest = iter(found)
        while part := list(itertools.islice(rest, _MOST_JOBS)):
            yield queue, part
