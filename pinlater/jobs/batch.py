"""Batches: jobs that are enqueued together, and the job that is enqueued when all of them have ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from pinlater.errors import EventTimeout
from pinlater.jobs.job import Job, RawJob
from pinlater.model.messages import MessageKind

if TYPE_CHECKING:
    from pinlater.jobs.context import JobContext
    from pinlater.jobs.workflow_context import WorkflowContext

MESSAGE_NAME = "call/0/batch"
"""Name of the messages by which the jobs of a batch report that they have ended."""
ALL_STORED = "all jobs stored"
"""The event that the client sends to a batch when it has stored all of its jobs."""
_PATIENCE_SECONDS = 86_400


class BatchOutcome(NamedTuple):
    """How the jobs of a batch have ended.

    Attributes:
        succeeded: number of jobs that succeeded.
        failed: number of jobs that failed for good, were cancelled or were deleted.
    """

    succeeded: int
    failed: int


class NextJob(msgspec.Struct, omit_defaults=True):
    """A job that a batch enqueues at its end, as it was given to the client.

    Attributes:
        queue: queue to enqueue it to.
        body: its body.
        priority: priority of its class.
        attempts: number of attempts of its class.
        key: key that it shares with other jobs; None: it has none.
        running_per_key: how many jobs of the key may run at once; None: no limit.
        in_order: whether the jobs of the key run in order.
        rate_per_key: maximum rate at which jobs of the key are started, such as ``10/s``; None: no limit.
    """

    queue: str
    body: bytes
    priority: int
    attempts: int
    key: str | None = None
    running_per_key: int | None = None
    in_order: bool | None = None
    rate_per_key: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of its enqueue."""
        told = msgspec.structs.asdict(self)
        del told["body"]
        return {name: value for name, value in told.items() if value is not None}


class Batch(Job[BatchOutcome], name="pinlater.batch", queue="pinlater_batch", attempts=20):
    """The parent of a batch's jobs: sleeps until all have ended, then enqueues the job that follows.

    Every worker knows this class, but none serves its queue: a batch is enqueued to the queue of the job that follows.
    """

    size: int
    then: NextJob | None = None
    on_failure: NextJob | None = None

    async def run(self, context: JobContext) -> BatchOutcome:  # so that any worker can run it, also on an event loop
        """Wait until all jobs have ended; enqueue ``then`` if all succeeded, else ``on_failure``."""
        before_wait = partial(self._wait_until_stored, context)
        kinds = cast("WorkflowContext", context).ends_of_children(MESSAGE_NAME, self.size, before_wait)
        succeeded = sum(kind == MessageKind.SUCCEEDED for kind in kinds)
        following = self.then if succeeded == self.size else self.on_failure
        if following is not None:
            context.enqueue(RawJob(body=following.body), name="next", **following.options())
        return BatchOutcome(succeeded, self.size - succeeded)

    def _wait_until_stored(self, context: JobContext) -> None:
        """Return when all jobs are stored.

        Otherwise the batch would wait forever if its client was killed before that, or if it was itself stored twice:
        then the jobs belong to the other one.
        """
        try:
            context.wait_for(ALL_STORED, timeout=_PATIENCE_SECONDS)
        except EventTimeout as error:
            error.args = ("not told within a day that its jobs are stored: its client died, or this is a copy",)
            raise
