"""Convert and validate acks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pinlater.errors import EnqueueRejected, UnknownError
from pinlater.model.attempts import StoredAck
from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.protocol.conversion.acks import stored_ack, stored_failure
from pinlater.protocol.messages import PinLaterJobAckInfo, PinLaterJobAckRequest
from pinlater.server.api.calls import CallRefused, missing, require
from pinlater.server.api.rules import check_queue_name, status_text, too_large

_MAX_RETRY_DELAY_MS = WAITS_FOR_KEY_MS // 2
"""Longest retry delay, 71,000 years: with any present time it stays within the times that a job can be due at."""


class ParsedAcks(NamedTuple):
    """The valid acks of one call, and the error of the first malformed one, if any."""

    queue: str
    succeeded: list[StoredAck]
    failed: list[StoredAck]
    faults: list[Exception]


def read_acks(request: PinLaterJobAckRequest, max_result_bytes: int) -> ParsedAcks:
    """Convert and validate the acks of a call; a malformed ack does not affect the others.

    Args:
        request: the acks.
        max_result_bytes: longest result of a job.

    Raises:
        CallRefused, QueueNameInvalid, QueueNameTooLong: the queue name is missing or invalid.
    """
    require(request, "jobAckRequest")
    queue = request.queueName or ""
    check_queue_name(queue)
    faults: list[Exception] = []
    succeeded = _read(request.jobsSucceeded, stored_ack, faults, max_result_bytes)
    failed = _read(request.jobsFailed, _failure, faults, max_result_bytes)
    return ParsedAcks(queue, succeeded, failed, faults)


def _failure(info: PinLaterJobAckInfo, status: str) -> StoredAck:
    ack = stored_failure(info, status)
    return ack if ack.retry_delay_ms <= _MAX_RETRY_DELAY_MS else ack._replace(retry_delay_ms=_MAX_RETRY_DELAY_MS)


def _read(
    infos: Sequence[PinLaterJobAckInfo] | None,
    read: Callable[[PinLaterJobAckInfo, str], StoredAck],
    faults: list[Exception],
    max_bytes: int,
) -> list[StoredAck]:
    found: list[StoredAck] = []
    for info in infos or ():
        try:
            if info.jobDescriptor is None:
                raise missing("jobDescriptor of an ack")
            if info.result is not None and len(info.result) > max_bytes:
                raise too_large(f"the result of {info.jobDescriptor}", info.result, max_bytes)
            status = info.appendCustomStatus
            found.append(read(info, status_text(status) if status else ""))
        except (CallRefused, UnknownError, EnqueueRejected) as fault:
            if not faults:  # only the first is reported; the tracebacks of many would fill the memory
                faults.append(fault)
    return found
