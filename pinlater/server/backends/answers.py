"""How many of the jobs or messages that were found fit into one answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pinlater.model.messages import ReceivedMessage
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, MESSAGE_OVERHEAD_BYTES


def end_of_answer(
    sizes: Sequence[int], start: int, limit: int, max_bytes: int, *, is_first: bool = True
) -> tuple[int, bool]:
    """Return where the jobs of one answer end, and whether there may be more for it.

    Args:
        sizes: body sizes in bytes of all jobs that were found, in their order.
        start: index of the first job of this answer.
        limit: most jobs in the answer.
        max_bytes: most bytes of the answer.
        is_first: whether these are the first jobs of the answer; if so, the first of them is handed out even if it does
            not fit.
    """
    end, room = start, max_bytes
    while end < len(sizes) and end - start < limit:
        room -= sizes[end] + JOB_OVERHEAD_BYTES
        if room < 0 and not (is_first and end == start):
            break
        end += 1
    return end, end < len(sizes) or end - start >= limit


def fitting_messages(found: Iterable[ReceivedMessage], max_bytes: int) -> list[ReceivedMessage]:
    """Return the first messages that fit into ``max_bytes``, but at least one; read at most one more than that."""
    messages: list[ReceivedMessage] = []
    room = max_bytes
    for message in found:
        room -= len(message.payload) + len(message.id.encode()) + MESSAGE_OVERHEAD_BYTES
        if room < 0 and messages:
            break
        messages.append(message)
    return messages
