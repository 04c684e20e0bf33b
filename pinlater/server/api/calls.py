"""Replies and Thrift-level errors of calls, and what a connection needs to know about a call."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pinlater.protocol.codec import PROTOCOL_ERROR, DecodedCall
from pinlater.protocol.operations import OPERATIONS
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())


class CallReply(NamedTuple):
    """The result of a call, and how to undo the call if the reply cannot be delivered."""

    success: Any
    undo: Callable[[], Awaitable[None]] | None = None

    async def take_back(self) -> None:
        """Undo the call: its reply could not be delivered."""
        if self.undo is not None:
            log.info("a reply could not be delivered; its jobs are returned to the queue")
            await self.undo()


class CallRefused(Exception):
    """The call is answered with a Thrift-level exception; the connection stays usable (wire contract §1.2).

    Attributes:
        kind: of the ``TApplicationException``.
    """

    def __init__(self, kind: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def require(struct: Any, name: str) -> None:
    """Refuse a struct that is absent or lacks a required field, which thriftpy2 does not check.

    Raises:
        CallRefused: the message names the missing field.
    """
    if struct is None:
        raise missing(name)
    kind: Any = type(struct)
    for field in _required_fields(kind):
        if getattr(struct, field) is None:
            raise missing(f"{name}.{field}")


@functools.cache
def _required_fields(kind: Any) -> tuple[str, ...]:
    """Return the names of the required fields of a struct class."""
    return tuple(field[1] for field in kind.thrift_spec.values() if field[-1])


def missing(name: str) -> CallRefused:
    """Create the error for a missing field."""
    return CallRefused(PROTOCOL_ERROR, f"required field {name} is missing")


def may_wait(call: DecodedCall) -> bool:
    """Return whether a call may wait for jobs."""
    operation = OPERATIONS.get(call.method)
    if operation is None or not operation.may_wait:
        return False
    return call.arguments.request is not None and bool(call.arguments.request.waitMillis)


def wants_stopping_notice(call: DecodedCall) -> bool:
    """Return whether the client wants a stopping notice before the server closes the connection."""
    context: Any = getattr(call.arguments, "context", None)
    return bool(getattr(context, "hearsStopping", None))
