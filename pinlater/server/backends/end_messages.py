"""The message that a job's end sends to its parent, and how a store keeps many of them together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate, count, pairwise, repeat
from typing import Any

from pinlater.model.messages import MessageKind, ReceivedMessage
from pinlater.protocol.messages import FAILED, SUCCEEDED

_SUCCEEDED = int(MessageKind.SUCCEEDED)
_received: Callable[[tuple[Any, ...]], ReceivedMessage] = partial(tuple.__new__, ReceivedMessage)
"""Creates a record without running Python code, since there is one for each child."""


def end_kind(state: int, *, is_cancelled: bool) -> MessageKind:
    """Return the kind of message that reports the end of a job.

    Args:
        state: the job's state; a job that has not finished is about to be deleted.
        is_cancelled: whether it is marked as cancelled.
    """
    if state == SUCCEEDED:
        return MessageKind.SUCCEEDED
    if state == FAILED:
        return MessageKind.CANCELLED if is_cancelled else MessageKind.FAILED
    return MessageKind.DELETED


def joined_messages(first: int, ids: str, sizes: str, payloads: bytes) -> list[ReceivedMessage]:
    """Return messages of children that succeeded, which a store keeps together.

    Args:
        first: number of the first message.
        ids: their ids, joined by commas.
        sizes: how many bytes each payload has, joined by commas.
        payloads: their payloads, one after the other.
    """
    ends = [0, *accumulate(map(int, sizes.split(",")))]
    cut = [payloads[start:end] for start, end in pairwise(ends)]
    return list(map(_received, zip(count(first), ids.split(","), cut, repeat(_SUCCEEDED))))
