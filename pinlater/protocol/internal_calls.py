"""Calls that our programs make and clients do not offer: calls with ready-made structs, and variations of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pinlater.model.attempts import Checkpoint
from pinlater.protocol import messages
from pinlater.protocol.call_source import CallSource
from pinlater.protocol.conversion import jobs as job_conversion
from pinlater.protocol.conversion.acks import checkpoint_struct
from pinlater.protocol.conversion.values import nothing
from pinlater.protocol.operation import Arguments, Call, addition, operation
from pinlater.protocol.repeating import all_checkpoints_fenced

T = TypeVar("T")


def _all_acks_fenced(arguments: Any) -> bool:
    """Tell whether all failures carry a claim, so that a repeat cannot hit a job's next attempt. Success is final."""
    return all(ack.claimDescriptor for ack in arguments.request.jobsFailed or ())


class InternalCalls(CallSource):
    """Builds calls from structs, for callers that make many; ``Calls`` builds them from records."""

    # Repeated even with servers that keep no results: delivery is at least once, so twice is better than never.
    @operation("enqueueJobs", job_conversion.descriptors, has_key=True)
    def enqueue_structs(self, queue: str, jobs: list[messages.PinLaterJob]) -> Arguments:
        """Store new jobs, and return their descriptors."""
        return (messages.PinLaterEnqueueRequest(queue, jobs),)

    def enqueue_once(
        self, queue: str, jobs: list[messages.PinLaterJob], key: bytes, *, is_repeat: bool, keep_result_ms: int
    ) -> Call[list[str]]:
        """Build an enqueue with a given idempotency key, which may outlive this process.

        A key must always be used with the same jobs.
        """
        call = self.enqueue_structs(queue, jobs)
        call.arguments.context = self.new_context(key, is_repeat, keep_result_ms)
        return call

    @operation("ackDequeuedJobs", nothing, repeatable=_all_acks_fenced)
    def ack_structs(self, acks: messages.PinLaterJobAckRequest) -> Arguments:
        """End attempts of claimed jobs with success or failure."""
        return (acks,)

    @addition("checkpointAndKeep", nothing, repeatable=all_checkpoints_fenced)
    def checkpoint_and_keep(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Arguments:
        """Checkpoint claimed jobs and store messages with them; servers that cannot do that do not know the call."""
        return (messages.PinLaterCheckpointJobsRequest(queue, list(map(checkpoint_struct, checkpoints))),)

    @addition("keepsResults", nothing)
    def keeps_results(self) -> Arguments:
        """Do nothing; a server that knows this call keeps the results of calls with an idempotency key."""
        return ()


def with_acks(dequeue: Call[T], acks: messages.PinLaterJobAckRequest | None) -> Call[T]:
    """Attach acks to a dequeue."""
    dequeue.arguments.request.jobAckRequest = acks
    return dequeue


def with_stale_claims(checkpoint: Call[None]) -> Call[None]:
    """Ask for the error ``StaleClaims`` if jobs of a checkpoint are not held as it says, or are asked to stop."""
    checkpoint.arguments.request.tellStale = True
    return checkpoint


def for_server_time(dry_run: Call[Any]) -> Call[int | None]:
    """Make a dry run return the server's time instead of jobs: epoch milliseconds, or None from an original server."""
    return replace(dry_run, convert=job_conversion.server_time_ms)
