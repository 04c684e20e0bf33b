"""Give back the claimed jobs of dequeues that were not answered, retrying until the store has done it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from pinlater.errors import QueueNotFound, ServiceError
from pinlater.model.attempts import DequeuedJob, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.plural import plural
from pinlater.server.backends.records import Settled
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.retry_until_done import RetryQueue

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())


class UnansweredClaims:
    """Returns claimed jobs to their queues; no attempt is spent.

    Args:
        checkpoint: sends checkpoints of a queue to the store.
    """

    def __init__(self, checkpoint: Callable[[str, Sequence[StoredCheckpoint]], Awaitable[Settled]]) -> None:
        self._checkpoint = checkpoint
        self._unfinished = RetryQueue()

    async def give_back(self, jobs: Mapping[str, Sequence[DequeuedJob]], claim: str) -> None:
        """Return the jobs of a claim to their queues; where the store cannot do it now, retry until it can."""
        for queue, claimed in jobs.items():
            work = partial(self._give_back, queue, claimed, claim)
            try:
                await work()
            except ServiceError as error:
                log.warning("queue %s: %s cannot be returned yet, retrying: %s", queue, plural(len(claimed)), error)
                self._unfinished.add(work)

    async def _give_back(self, queue: str, claimed: Sequence[DequeuedJob], claim: str) -> None:
        try:
            await self._checkpoint(
                queue,
                [
                    StoredCheckpoint(
                        JobDescriptor.parse(job.descriptor), claim, "", None, True, job.run_after_ms, None, ""
                    )
                    for job in claimed
                ],
            )
        except QueueNotFound:  # the jobs were deleted with their queue
            return
