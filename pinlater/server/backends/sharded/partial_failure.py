"""The error of a call that failed on one shard after others had done their part."""

from __future__ import annotations

from pinlater.errors import ServiceError, ShardConnectionFailed
from pinlater.server.backends.sharded.shard import ShardUnreachable


def partial_failure(error: ServiceError, done: str) -> ServiceError:
    """Return the error of a whole call, given a shard's error, which only covers its own part.

    Args:
        error: the shard's error.
        done: what the others have done, and what to do now, as a sentence without its period.
    """
    kind = ShardConnectionFailed if isinstance(error, ShardUnreachable) else type(error)
    failure = kind(f"{done}. What the shard says of its part: {error}")
    failure.is_partial = True
    return failure
