"""A consumer as lean as the protocol allows: the next dequeue is in flight while a batch is acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinlater.client.connection import Connection
from pinlater.protocol import messages as wire

DEQUEUES_IN_FLIGHT = 2

_arguments = wire.arguments_of("dequeueJobs")
_context = wire.RequestContext(source="bench")


def drain(connection: Connection, queue: str, batch_size: int, *, most: int) -> int:
    """Claim and acknowledge up to ``most`` jobs, in batches; return how many."""
    wanted = most
    done = 0
    while wanted > 0 and connection.in_flight < DEQUEUES_IN_FLIGHT:
        send_dequeue(connection, queue, min(batch_size, wanted))
        wanted -= batch_size
    while connection.in_flight:
        acks = acks_of(connection.receive(30.0))
        done += len(acks)
        if not acks:
            continue
        if wanted > 0:
            send_dequeue(connection, queue, min(batch_size, wanted), acks)
            wanted -= batch_size
        else:
            request = wire.PinLaterJobAckRequest(queue, acks)
            connection.send("ackDequeuedJobs", wire.arguments_of("ackDequeuedJobs")(_context, request))
    return done


def send_dequeue(
    connection: Connection,
    queue: str,
    limit: int,
    acks: Sequence[wire.PinLaterJobAckInfo] = (),
    *,
    wait_ms: int | None = None,
) -> None:
    """Send a dequeue that carries acks."""
    connection.send("dequeueJobs", dequeue_arguments(queue, limit, acks, wait_ms=wait_ms))


def dequeue_arguments(
    queue: str, limit: int, acks: Sequence[wire.PinLaterJobAckInfo] = (), *, wait_ms: int | None = None
) -> Any:
    """Return the arguments of a dequeue that carries acks."""
    riding = wire.PinLaterJobAckRequest(queue, list(acks)) if acks else None
    request = wire.PinLaterDequeueRequest(queue, limit, riding, waitMillis=wait_ms, claimTimeoutMillis=30_000)
    return _arguments(_context, request)


def send_enqueue(connection: Connection, queue: str, body: bytes) -> None:
    """Send the enqueue of one job, without waiting for its answer."""
    request = wire.PinLaterEnqueueRequest(queue, [wire.PinLaterJob(body)])
    connection.send("enqueueJobs", wire.arguments_of("enqueueJobs")(_context, request))


def acks_of(reply: Any) -> list[wire.PinLaterJobAckInfo]:
    """Return the acks for all jobs of a dequeue's reply; none for the reply to an ack."""
    if reply is None or not reply.jobMetadata:
        return []
    acknowledge = wire.PinLaterJobAckInfo
    return [
        acknowledge(descriptor, claimDescriptor=about.claimDescriptor)
        for descriptor, about in reply.jobMetadata.items()
    ]
