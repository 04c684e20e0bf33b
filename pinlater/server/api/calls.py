"""Replies and Thrift-level errors of calls, and what a connection needs to know about a call."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, NamedTuple

from pinlater.protocol.codec import PROTOCOL_ERROR, DecodedCall
from pinlater.protocol.operations import OPERATIONS
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())


_MAY_WAIT = frozenset(method for method, operation in OPERATIONS.items() if operation.may_wait)
"""The methods of calls that may wait if they ask for it."""


class CallReply(NamedTuple):
    """The result of a call, and how to undo the call if the reply cannot be delivered."""

    success: Any
    undo: Callable[[], Awaitable[None]] | None = None

    async def take_back(self) -> None:
        """Undo the call: its reply could not be delivered."""
        if self.undo is not None:
            log.info("a reply could not be delivered; its jobs are returned to the queue")
            await self.undo()


NO_REPLY = CallReply(None)
"""The result of a call that returns nothing, or whose reply is sent already."""


class CallRefused(Exception):
    """The call is answered with a Thrift-level exception; the connection stays usable (wire contract §1.2).

    Attributes:
        kind: the type of the ``TApplicationException``.
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
    fields, values_of = _required_of(kind)
    if None in (values := values_of(struct)):
        raise missing(f"{name}.{fields[values.index(None)]}")


@functools.cache
def _required_of(kind: Any) -> tuple[list[str], Callable[[Any], tuple[Any, ...]]]:
    """Return the names of the required fields of a struct class, and a getter of their values."""
    fields = [field[1] for field in kind.thrift_spec.values() if field[-1]]
    getter = attrgetter(*fields, "thrift_spec")  # one more name, so that it always returns a tuple
    return fields, getter


def missing(name: str) -> CallRefused:
    """Create the error for a missing field."""
    return CallRefused(PROTOCOL_ERROR, f"required field {name} is missing")


def may_wait(call: DecodedCall) -> bool:
    """Return whether a call asks to wait, and is of a kind that may."""
    return call.method in _MAY_WAIT and call.arguments.request is not None and bool(call.arguments.request.waitMillis)


def wants_stopping_notice(call: DecodedCall) -> bool:
    """Return whether the client wants a stopping notice before the server closes the connection."""
    context: Any = getattr(call.arguments, "context", None)
    return bool(getattr(context, "hearsStopping", None))
