"""Encode which running jobs are to stop, for other processes and servers.

Such a message names no new jobs, so a server of an older version that drops it loses nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_FIRST = b"cancelled"


def cancellation_messages(descriptors: Sequence[str], most_bytes: int) -> Iterator[bytes]:
    """Yield messages that name the jobs, each of ``most_bytes`` at most."""
    message = bytearray(_FIRST)
    for descriptor in descriptors:
        word = b" " + descriptor.encode()
        if len(message) + len(word) > most_bytes and len(message) > len(_FIRST):
            yield bytes(message)
            message = bytearray(_FIRST)
        message += word
    if len(message) > len(_FIRST):
        yield bytes(message)


def cancelled_in(message: bytes) -> list[str] | None:
    """Return the descriptors in a message; None if it is of another kind."""
    first, _, rest = message.partition(b" ")
    return rest.decode().split(" ") if first == _FIRST else None
