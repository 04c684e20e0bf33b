"""Jobs: as they are enqueued, as a server describes them, and in the pages of a scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from pinlater.errors import BodyInvalid
from pinlater.model.attempt_count import AttemptCount, count_attempts
from pinlater.model.body_metadata import read_progress, read_published
from pinlater.model.keys import JobKey
from pinlater.model.messages import MessageWait, Parent
from pinlater.model.policy import Policy, read_policy
from pinlater.model.progress import Progress
from pinlater.model.state import JobState
from pinlater.model.status import FailedAttempt, parse_status
from pinlater.model.unique import UniqueRule
from pinlater.model.walked_jobs import WalkedJobs


class NewJob(NamedTuple):
    """A job to enqueue.

    Attributes:
        body: any bytes.
        priority: 1 is served first.
        run_after_ms: epoch milliseconds before which it does not run; None is now.
        attempts: total number of attempts, including the first.
        status: text at the beginning of the job's custom status.
        unique: its unique key: while a job of the queue with the same key is PENDING or IN_PROGRESS, nothing is stored.
        unique_rule: further rules for the unique key; None: there are none.
        key: key that it shares with other jobs of the queue, and how those run; None: it has none.
        parent: the job that waits for its end; None: it has none.
    """

    body: bytes
    priority: int = 1
    run_after_ms: int | None = None
    attempts: int = 2
    status: str = ""
    unique: str | None = None
    unique_rule: UniqueRule | None = None
    key: JobKey | None = None
    parent: Parent | None = None


class JobInfo(NamedTuple):
    """What the server knows about a job; times are epoch milliseconds.

    Attributes:
        descriptor: address of the job.
        state: its state.
        attempts_allowed: total number of attempts.
        attempts_remaining: attempts left.
        status: custom status.
        created_at_ms: when it was enqueued.
        run_after_ms: when it became or becomes due.
        updated_at_ms: when it last changed.
        claim: its claim, once it was handed out.
        body: its body, if requested.
        unique: its unique key, as long as it is not finished.
        key: key that it shares with other jobs of the queue; None: it has none.
        waits_for_key: whether it waits until other jobs of its key have run.
        result: of a SUCCEEDED job: what it returned, if requested; None: nothing.
        is_cancelled: of a FAILED job: whether it was cancelled; of any other: whether it is asked to stop.
        parent: the job that waits for its end; None: it has none.
        waits_for: of a sleeping job: the messages that it waits for.
        failure_group: group of its last attempt's failure, see ``FailureGroup``; None: that attempt did not fail.
        run_ms: of a SUCCEEDED job: how long its last attempt ran; None: less than 50 ms, or its worker did not say.
    """

    descriptor: str
    state: JobState
    attempts_allowed: int
    attempts_remaining: int
    status: str = ""
    created_at_ms: int = 0
    run_after_ms: int | None = None
    updated_at_ms: int | None = None
    claim: str | None = None
    body: bytes | None = None
    unique: str | None = None
    key: JobKey | None = None
    waits_for_key: bool = False
    result: bytes | None = None
    is_cancelled: bool = False
    parent: Parent | None = None
    waits_for: Sequence[MessageWait] = ()
    failure_group: int | None = None
    run_ms: int | None = None

    @property
    def is_retrying(self) -> bool:
        """Whether its last attempt failed and it waits for another one."""
        return self.state is JobState.PENDING and self.failure_group is not None

    @property
    def progress(self) -> Progress | None:
        """The progress that the job reported; None if it has none, has succeeded, or the body was not requested."""
        return None if self.state is JobState.SUCCEEDED else read_progress(self.body)

    @property
    def published(self) -> dict[str, Any]:
        """What the job has published; empty if it has succeeded, or the body was not requested."""
        return {} if self.state is JobState.SUCCEEDED else read_published(self.body)

    @property
    def own_attempts(self) -> AttemptCount:
        """Its attempts as its worker counts them; for a job with something to undo, only if the body was requested."""
        return count_attempts(self.attempts_allowed, self.attempts_remaining, self.body, self.unique)

    @property
    def attempts_text(self) -> str:
        """How many attempts are left, in words; see ``own_attempts``."""
        return self.own_attempts.text

    @property
    def failed_attempts(self) -> list[FailedAttempt]:
        """The failed attempts, the oldest first, as far as workers of PinLater have written them into the status."""
        return parse_status(self.status)[1]

    @property
    def remark(self) -> str:
        """The rest of the status: the text of the enqueue, or all of it if other workers have written it."""
        return parse_status(self.status)[0]

    @property
    def policy(self) -> Policy | None:
        """The policy that its enqueue set; None if it set none, or the body was not requested."""
        try:
            return None if self.body is None else read_policy(self.body)
        except BodyInvalid:
            return None


class PartialCount(int):
    """A number of jobs that lacks those on shards that did not answer; a complete one is an ordinary int.

    Attributes:
        missing_shards: names of these shards.
    """

    missing_shards: tuple[str, ...]

    def __new__(cls, number: int, missing_shards: Iterable[str]) -> Self:
        count = super().__new__(cls, number)
        count.missing_shards = tuple(missing_shards)
        return count


def missing_shards(found: int | Page) -> tuple[str, ...]:
    """Return the names of the shards whose jobs a count or a page of a scan lacks, since they did not answer.

    Servers of older versions name none.
    """
    return found.missing_shards if isinstance(found, PartialCount | Page) else ()


class Page(NamedTuple):
    """One page of a scan.

    Attributes:
        jobs: the jobs of this page.
        continuation: to be passed to the next scan; None on the last page.
        looked_at: number of jobs whose bodies were searched; None: none, or the server is of an older version.
        missing_shards: names of shards that did not answer, so that their jobs are left out.
    """

    jobs: list[JobInfo]
    continuation: str | None
    looked_at: int | None = None
    missing_shards: tuple[str, ...] = ()


class JobRecord(NamedTuple):
    """All that a store knows about a job; ``state`` is its number on the wire.

    While other jobs of its key have to run first, ``run_after_ms`` has ``WAITS_FOR_KEY_MS`` added to it.
    """

    descriptor: str
    state: int
    attempts_allowed: int
    attempts_remaining: int
    status: str
    created_at_ms: int
    run_after_ms: int
    updated_at_ms: int
    claim: str | None
    body: bytes | None
    unique: str | None = None
    key: JobKey | None = None
    result: bytes | None = None
    is_cancelled: bool = False
    parent: Parent | None = None
    waits_for: Sequence[MessageWait] = ()
    failure_group: int | None = None
    run_ms: int | None = None


class Position(NamedTuple):
    """Where a scan continues: after this job. ``shard`` is empty if the store has only one."""

    run_after_ms: int
    local_id: int
    shard: str = ""


class RecordPage(NamedTuple):
    """One page of a scan in a store; ``position`` resumes it, None at the end. Searches of bodies set the next two.

    ``missing_shards`` did not answer; their jobs are left out.
    """

    jobs: list[JobRecord]
    position: Position | None
    looked_at: int | None = None
    walked: WalkedJobs | None = None
    missing_shards: tuple[str, ...] = ()
