"""What the keeper says to a server: one call after the other, each for many jobs of one queue."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from pinlater.client.connection import Connection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallError, QueueNotFound, StaleClaims
from pinlater.model.attempts import Checkpoint
from pinlater.model.jobs import JobInfo
from pinlater.protocol.conversion.acks import acks_struct, failure_structs, success_structs
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.contact import Contact
from pinlater.worker.session.batch import queue_of
from pinlater.worker.session.connector import Connector

_T = TypeVar("_T")

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
        self._calls = Calls(f"{name}:{secrets.token_hex(4)}", is_plain=True)

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
        checkpoints = [Checkpoint(descriptor, claim, move_to_pending=move_to_pending) for descriptor, claim in jobs]
        try:
            self._make(self._calls.checkpoint(queue, checkpoints, tell_stale=tell_stale))
        except QueueNotFound:
            return [descriptor for descriptor, _ in jobs]
        except StaleClaims as error:
            return error.job_descriptors
        return ()

    def succeeded(self, jobs: Iterable[Claimed]) -> None:
        """Report successes."""
        for queue, part in _by_queue(jobs):
            self._call(self._calls.ack_structs(acks_struct(queue, success_structs(part))))

    def failed(self, jobs: Iterable[Lost]) -> None:
        """Report failures."""
        for queue, part in _by_queue(jobs):
            failed = failure_structs(job[:-1] for job in part)
            self._call(self._calls.ack_structs(acks_struct(queue, failed=failed)))

    def look(self, descriptor: str) -> tuple[str, bytes]:
        """Return a job's custom status and its body; both empty if it is not there any more."""
        found: dict[str, JobInfo] = self._call(self._calls.lookup([descriptor], include_body=True)) or {}
        info = found.get(descriptor)
        return ("", b"") if info is None else (info.status, info.body or b"")

    def note(self, job: Claimed, text: str) -> None:
        """Put a text in front of a job's custom status, where there is room even if the status is full."""
        descriptor, claim = job
        self._call(self._calls.checkpoint(queue_of(descriptor), [Checkpoint(descriptor, claim, status=text)]))

    def release(self, queues: Sequence[str], source: str) -> Counter[str]:
        """Give back all that was claimed in the name of ``source``; return how many jobs of each queue these were."""
        return Counter({queue: self._call(self._calls.release_claims(queue, source)) or 0 for queue in queues})

    def _call(self, call: Call[_T]) -> _T | None:
        """Make a call; return None if there is no such queue."""
        try:
            return self._make(call)
        except QueueNotFound:
            return None

    def _make(self, call: Call[_T]) -> _T:
        if self._connection is None or self._connection.is_stale():
            self._connection = self._connector.connect()
        try:
            reply = self._connection.call(call.method, call.arguments, _CALL_SECONDS)
        except QueueNotFound:
            self._connector.contact.heard()
            raise
        except CallError:
            self._connector.contact.failed()
            raise
        self._connector.contact.heard()
        return call.convert(reply)


def _by_queue(jobs: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Sort jobs, whose first field is the descriptor, by queue, in parts that make no call too large."""
    queues: defaultdict[str, list[Any]] = defaultdict(list)
    for job in jobs:
        queues[queue_of(job[0])].append(job)
    for queue, found in queues.items():
        rest = iter(found)
        while part := list(itertools.islice(rest, _MOST_JOBS)):
            yield queue, part
