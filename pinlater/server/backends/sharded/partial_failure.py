"""The error of a call that failed on one shard, after others have done their part of it."""

from __future__ import annotations

from pinlater.errors import ServiceError, ShardConnectionFailed
from pinlater.server.backends.sharded.shard import ShardUnreachable


def partial_failure(error: ServiceError, done: str) -> ServiceError:
    """Return the error of a call, given that of a shard, which only knows of itself.

    Args:
        error: of the shard.
        done: what the others have done, and what to do now, as a sentence without its end.
    """
    kind = ShardConnectionFailed if isinstance(error, ShardUnreachable) else type(error)
    return kind(f"{done}. What the shard says of its part: {error}")
