"""Job descriptors: ``queue:s<shard>:p<priority>:<local id>`` (wire contract §7)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pinlater.errors import UnknownError

_HEAD = re.compile(r"([A-Za-z0-9_]+):s([^:]+):p(0|[1-9]\d{0,8})", re.ASCII)
_MAX_ID = 2**63 - 1


class JobDescriptor(NamedTuple):
    """Address of one job; opaque to clients.

    Attributes:
        queue: queue name.
        shard: configured name of the shard that stores the job.
        priority: priority level; 1 is served first.
        local_id: number of the job within its shard (MySQL: within shard and priority).
    """

    queue: str
    shard: str
    priority: int
    local_id: int

    def __str__(self) -> str:
        return f"{self.queue}:s{self.shard}:p{self.priority}:{self.local_id}"

    @classmethod
    def parse(cls, text: str) -> JobDescriptor:
        """Parse the canonical form of a descriptor.

        The original service also accepted variants such as ``q:X1:Z1:+7`` and ``q:s1:p01:007``. They are refused here:
        nothing produces them, and each would be a second name of the same job.

        Raises:
            UnknownError: ``text`` is not a descriptor (the original also answers UNKNOWN).
            TypeError: it is not text.
        """
        try:  # free unless it fails; a server parses a descriptor for each ack
            head, _, number = text.rpartition(":")
        except (AttributeError, TypeError):
            raise TypeError(f"a job descriptor is a text, such as handle.descriptor; got {text!r:.200}") from None
        if not (number.isascii() and number.isdigit() and len(number) < 20) or (number[0] == "0" and number != "0"):
            raise _malformed(text)
        parsed = _parse_head(head)
        local_id = int(number)
        if parsed is None or local_id > _MAX_ID:
            raise _malformed(text)
        queue, shard, priority = parsed
        return tuple.__new__(cls, (queue, shard, priority, local_id))  # its constructor costs as much as the rest


def queue_of(descriptor: str) -> str:
    """Return the queue in a descriptor that came from a server; nothing is checked."""
    return descriptor.partition(":")[0]


def shard_of(descriptor: str) -> str:
    """Return the shard in a descriptor that came from a server, such as ``s1``; nothing is checked."""
    return descriptor.split(":", 2)[1]


@lru_cache(maxsize=4096)  # few heads, millions of ids
def _parse_head(head: str) -> tuple[str, str, int] | None:
    """Return queue, shard and priority; None if this is no beginning of a descriptor."""
    match = _HEAD.fullmatch(head)
    return None if match is None else (match[1], match[2], int(match[3]))


def _malformed(text: str) -> UnknownError:
    return UnknownError(f"malformed job descriptor {text[:200]!r}: expected queue:s<shard>:p<priority>:<id>")
