"""The keeper's client: one call at a time, each for many jobs of one queue."""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pinlater.client.connection import Connection
from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import CallError, QueueNotFound, ServerUnavailable, ServiceError, StaleClaims, UnknownError
from pinlater.model.attempts import Checkpoint
from pinlater.model.descriptor import queue_of, shard_of
from pinlater.model.jobs import JobInfo
from pinlater.model.statistics import RunStatistics
from pinlater.model.workers import WorkerReport
from pinlater.protocol.conversion.acks import ack_structs, acks_struct
from pinlater.protocol.internal_calls import with_stale_claims
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.session.connector import Connector, ignore_beat

if TYPE_CHECKING:
    from pinlater.worker.keeper.failure_report import FailureReport

_T = TypeVar("_T")
_J = TypeVar("_J", bound=tuple[Any, ...])

_CALL_SECONDS = 5.0
_SHORTEST_CALL_SECONDS = 0.5
_MOST_JOBS = 1000

ClaimKey = tuple[str, str]
"""Descriptor and claim of a job."""

Success = tuple[str, str, bytes | None]
"""Descriptor, claim and result of a job that has succeeded."""


class Renewal(NamedTuple):
    """What a server says about renewed claims.

    Attributes:
        lost: claims that are lost.
        cancelled: claims whose jobs are asked to stop.
    """

    lost: set[ClaimKey]
    cancelled: set[ClaimKey]


class _Told(NamedTuple):
    """Descriptors that a server names in its answer to a checkpoint."""

    lost: Collection[str] = ()
    cancelled: Collection[str] = ()


class Refusals:
    """A context for each of several calls: if one fails, perhaps because a shard is away, the others are still made.

    Only ``ServerUnavailable`` is raised at once.
    """

    def __init__(self) -> None:
        self._first: CallError | ServiceError | None = None

    def __enter__(self) -> None:
        """Begin a call."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Keep the error of the call."""
        if isinstance(error, ServerUnavailable) or not isinstance(error, CallError | ServiceError):
            return False
        self._first = self._first or error
        return True

    def raise_first(self) -> None:
        """Raise the first error, if there was any."""
        if self._first is not None:
            raise self._first


class KeeperClient:
    """Makes the keeper's calls. A deleted queue is no error.

    All methods raise ``CallError`` or ``ServiceError`` if the call did not succeed.

    Args:
        connector: connects to a server.
        name: prefix of the source name sent with calls.
        lease_seconds: lifetime of the claims that it renews. A server that does not answer is left after a sixth of it:
            at least half remains when a renewal begins, so another server can renew the claims in time.
        beat: called before each call and each try to connect, so that many slow ones do not look like a process that
            hangs.
    """

    def __init__(
        self,
        connector: Connector,
        name: str,
        lease_seconds: float = math.inf,
        beat: Callable[[], object] = ignore_beat,
    ) -> None:
        self._connector = connector
        self._beat = beat
        self._call_seconds = min(max(lease_seconds / 6, _SHORTEST_CALL_SECONDS), _CALL_SECONDS)
        self._connection: Connection | None = None
        self._calls = Calls(f"{name}:{secrets.token_hex(4)}", is_plain=True)

    def renew(self, jobs: Iterable[ClaimKey]) -> Renewal:
        """Renew claims; return those that the server reports as lost, and those of cancelled jobs."""
        found = Renewal(set(), set())
        for queue, part in by_queue(jobs):
            self._renew(queue, part, found)
        return found

    def _renew(self, queue: str, jobs: Sequence[ClaimKey], found: Renewal) -> None:
        told = self._checkpoint(queue, jobs, tell_stale=True)
        if told == _Told():
            return
        named, times = {*told.lost, *told.cancelled}, Counter(descriptor for descriptor, _ in jobs)
        for job in jobs:
            descriptor, _ = job
            if descriptor in named:
                # A worker can hold a job under an old and a new claim; only one of them is lost.
                of_job = told if times[descriptor] == 1 else self._checkpoint(queue, [job], tell_stale=True)
                if descriptor in of_job.lost:
                    found.lost.add(job)
                elif descriptor in of_job.cancelled:
                    found.cancelled.add(job)

    def release(self, jobs: Iterable[ClaimKey]) -> None:
        """Release jobs to their queues, no attempt spent."""
        for queue, part in by_queue(jobs):
            self._checkpoint(queue, part, move_to_pending=True)

    def _checkpoint(
        self, queue: str, jobs: Sequence[ClaimKey], *, move_to_pending: bool = False, tell_stale: bool = False
    ) -> _Told:
        """Checkpoint jobs; if ``tell_stale``, return the descriptors of lost claims and of cancelled jobs."""
        checkpoints = [Checkpoint(descriptor, claim, move_to_pending=move_to_pending) for descriptor, claim in jobs]
        try:
            call = self._calls.checkpoint(queue, checkpoints)
            self._make(with_stale_claims(call) if tell_stale else call)
        except QueueNotFound:
            return _Told([descriptor for descriptor, _ in jobs])
        except StaleClaims as error:
            return _Told(error.job_descriptors, error.cancelled)
        return _Told()

    def succeeded(self, jobs: Iterable[Success]) -> None:
        """Ack successes."""
        for queue, part in by_queue(jobs):
            acks = ack_structs((descriptor, "", 0, claim, None, result, None) for descriptor, claim, result in part)
            self._call(self._calls.ack_structs(acks_struct(queue, acks)))

    def failed(self, jobs: Iterable[FailureReport]) -> None:
        """Ack failures."""
        for queue, part in by_queue(jobs):
            acks = ack_structs(job.ack for job in part)
            self._call(self._calls.ack_structs(acks_struct(queue, failed=acks)))

    def tell_runs(self, runs: Iterable[tuple[str, RunStatistics]]) -> None:
        """Report run statistics, each with the descriptor of its job; errors are ignored."""
        for queue, part in by_queue(runs):
            told = acks_struct(queue, runs=[one for _, one in part])
            with suppress(CallError, ServiceError):
                self._call(self._calls.ack_structs(told))

    def lookup_job(self, descriptor: str) -> tuple[str, bytes]:
        """Return a job's custom status and body; both empty if the job is gone."""
        found: dict[str, JobInfo] = self._call(self._calls.lookup([descriptor], include_body=True)) or {}
        info = found.get(descriptor)
        return ("", b"") if info is None else (info.status, info.body or b"")

    def prepend_status(self, job: ClaimKey, text: str) -> None:
        """Prepend a text to a job's custom status; if it gets too long, its end is cut off."""
        descriptor, claim = job
        self._call(self._calls.checkpoint(queue_of(descriptor), [Checkpoint(descriptor, claim, status=text)]))

    def replace_body(self, job: ClaimKey, body: bytes, attempts: int) -> None:
        """Replace a job's body and its number of attempts, including this one."""
        descriptor, claim = job
        checkpoint = Checkpoint(descriptor, claim, body, attempts=attempts)
        self._call(self._calls.checkpoint(queue_of(descriptor), [checkpoint]))

    def release_claims(self, queues: Sequence[str], source: str) -> Counter[str]:
        """Release all claims of a source; return the number of jobs by queue."""
        return Counter({queue: self._call(self._calls.release_claims(queue, source)) or 0 for queue in queues})

    def _call(self, call: Call[_T]) -> _T | None:
        """Make a call; return None if there is no such queue."""
        try:
            return self._make(call)
        except QueueNotFound:
            return None

    def report_worker(self, report: WorkerReport, keep_seconds: float, call_seconds: float) -> None:
        """Send a report of the worker, with the time at which it is sent; see ``Calls.report_worker``."""
        self._connected()  # this may take a while
        self._make(
            self._calls.report_worker(report._replace(sent_ms=int(time.time() * 1000)), keep_seconds), call_seconds
        )

    def close(self) -> None:
        """Close the connection; the next call makes another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_stale():
            self.close()
            self._connection = self._connector.connect(self._beat)
        return self._connection

    def _make(self, call: Call[_T], seconds: float | None = None) -> _T:
        connection = self._connected()
        self._beat()
        try:
            reply = connection.call(call.method, call.arguments, seconds or self._call_seconds)
        except QueueNotFound:
            self._connector.contact.record_success()
            raise
        except (UnknownError, *STORE_OUT_OF_REACH):  # perhaps only this server is cut off, or knows too few shards
            if self._connector.leave(connection.address):
                self.close()
            raise
        except CallError as error:
            self._connector.note_failure(connection, error)
            raise
        self._connector.contact.record_success()
        return call.convert(reply)


def by_queue(jobs: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Group jobs, whose first field is the descriptor, by queue, in parts small enough for a call."""
    queues: defaultdict[str, list[Any]] = defaultdict(list)
    for job in jobs:
        queues[queue_of(job[0])].append(job)
    for queue, found in queues.items():
        rest = iter(found)
        while part := list(itertools.islice(rest, _MOST_JOBS)):
            yield queue, part


def by_shard(jobs: Iterable[_J]) -> list[list[_J]]:
    """Group jobs, whose first field is the descriptor, by shard."""
    shards: defaultdict[str, list[_J]] = defaultdict(list)
    for job in jobs:
        shards[shard_of(job[0])].append(job)
    return list(shards.values())
