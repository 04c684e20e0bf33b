"""What programs of ours send and clients do not offer: calls whose structs exist already, and additions to others."""

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
    """Tell whether a repeated failure cannot hit the job's next attempt, since it has a claim. Success is final."""
    return all(ack.claimDescriptor for ack in arguments.request.jobsFailed or ())


class InternalCalls(CallSource):
    """Builds calls from structs, for those who make many of them; ``Calls`` builds them from records."""

    # Repeated also by servers that keep no results: twice is better than never, for delivery is at least once.
    @operation("enqueueJobs", job_conversion.descriptors, has_key=True)
    def enqueue_structs(self, queue: str, jobs: list[messages.PinLaterJob]) -> Arguments:
        """Store new jobs, and return their descriptors."""
        return (messages.PinLaterEnqueueRequest(queue, jobs),)

    def enqueue_once(
        self, queue: str, jobs: list[messages.PinLaterJob], key: bytes, *, is_repeat: bool, keep_result_ms: int
    ) -> Call[list[str]]:
        """Build an enqueue that a server knows again by a key which outlives this process.

        Under a key, the jobs always have to be the same.
        """
        call = self.enqueue_structs(queue, jobs)
        call.arguments.context = self.new_context(key, is_repeat, keep_result_ms)
        return call

    @operation("ackDequeuedJobs", nothing, repeatable=_all_acks_fenced)
    def ack_structs(self, acks: messages.PinLaterJobAckRequest) -> Arguments:
        """End attempts of claimed jobs, with success or failure."""
        return (acks,)

    @addition("checkpointAndKeep", nothing, repeatable=all_checkpoints_fenced)
    def checkpoint_and_keep(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Arguments:
        """Checkpoint claimed jobs that keep messages with it; servers that cannot keep them lack the call."""
        return (messages.PinLaterCheckpointJobsRequest(queue, list(map(checkpoint_struct, checkpoints))),)

    @addition("keepsResults", nothing)
    def keeps_results(self) -> Arguments:
        """Tell that the server keeps the results of calls with a key; servers that do not lack the call."""
        return ()


def with_acks(dequeue: Call[T], acks: messages.PinLaterJobAckRequest | None) -> Call[T]:
    """Let a dequeue carry acks."""
    dequeue.arguments.request.jobAckRequest = acks
    return dequeue


def with_stale_claims(checkpoint: Call[None]) -> Call[None]:
    """Let a checkpoint be answered by ``StaleClaims`` if jobs are not held as it says."""
    checkpoint.arguments.request.tellStale = True
    return checkpoint


def for_server_time(dry_run: Call[Any]) -> Call[int | None]:
    """Read from the answer of a dequeue when it is on the server, in epoch milliseconds; jobs are left aside."""
    return replace(dry_run, convert=job_conversion.server_time_ms)
