"""Encode what a poll of all queues has found, for other processes and servers.

Each message covers the queues whose numbers are in one range; if it is lost, its receivers poll those queues
themselves. A server of an older version drops it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pinlater.server.backends.poll_of_all import LAST_NUMBER, PollNews, PollOfAll, digest_of_shards, queue_number
from pinlater.server.clock import milliseconds_since

_FIRST = b"polled"
_HEAD_BYTES = 100
_DIGITS = 8
_MOST_MESSAGES = 20
"""If more are needed, so many queues have due jobs that there is little to save: each server polls for itself."""


def poll_messages(poll: PollOfAll, now_ms: int, most_bytes: int) -> Iterator[bytes]:
    """Yield messages that tell of a poll, each of ``most_bytes`` at most; they are to be sent at once.

    Args:
        poll: the result of the poll.
        now_ms: the current time by the clock of the store.
        most_bytes: largest size of a message.
    """
    age_ms = milliseconds_since(poll.asked_at) + 1  # rounded up: the poll did not begin earlier than this
    head = f"{_FIRST.decode()} {now_ms - age_ms} {age_ms} {digest_of_shards(poll.shards)}"
    due, most = sorted({queue_number(queue) for queue in poll.first_due_ms}), (most_bytes - _HEAD_BYTES) // _DIGITS
    if len(due) > most * _MOST_MESSAGES:
        return
    first = 0
    for start in range(0, max(len(due), 1), most):
        some, is_last = due[start : start + most], start + most >= len(due)
        last = LAST_NUMBER if is_last else some[-1]
        yield f"{head} {first} {last} {''.join(f'{number:0{_DIGITS}x}' for number in some)}".encode()
        first = last + 1


def poll_in(message: bytes) -> PollNews | None:
    """Return what a message says of a poll; None if it is of another kind.

    Raises:
        ValueError: it is of another version.
    """
    kind, _, rest = message.partition(b" ")
    if kind != _FIRST:
        return None
    asked_ms, age_ms, shards, first, last, due = rest.decode().split(" ")
    numbers = frozenset(int(due[at : at + _DIGITS], 16) for at in range(0, len(due), _DIGITS))
    return PollNews(int(asked_ms), int(age_ms), shards, int(first), int(last), numbers)
