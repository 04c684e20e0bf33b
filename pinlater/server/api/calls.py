"""What a connection has to know of a call; answers and refusals, below the level of PinLater's own error codes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pinlater.protocol.codec import PROTOCOL_ERROR, DecodedCall


class Answer(NamedTuple):
    """What a call answers, and what to do when nobody is there to read it."""

    success: Any
    undo: Callable[[], Awaitable[None]] | None = None


class CallRefused(Exception):
    """Answered as a Thrift-level exception; the connection stays usable (wire contract §1.2).

    Attributes:
        kind: type of the ``TApplicationException``.
    """

    def __init__(self, kind: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def require(struct: Any, name: str) -> None:
    """Return if a struct and all its required fields are there; thriftpy2's decoder does not check that.

    Raises:
        CallRefused: one is missing; the message names it.
    """
    if struct is None:
        raise missing(name)
    for field in type(struct).thrift_spec.values():
        if field[-1] and getattr(struct, field[1]) is None:
            raise missing(f"{name}.{field[1]}")


def missing(name: str) -> CallRefused:
    """Return the refusal that names an absent field."""
    return CallRefused(PROTOCOL_ERROR, f"required field {name} is missing")


def may_wait(call: DecodedCall) -> bool:
    """Whether a call may wait for jobs."""
    request: Any = getattr(call.arguments, "request", None)
    return bool(getattr(request, "waitMillis", None))


def wants_stopping_notice(call: DecodedCall) -> bool:
    """Whether the client wants to be told when the connection ends since the server stops."""
    context: Any = getattr(call.arguments, "context", None)
    return bool(getattr(context, "hearsStopping", None))
