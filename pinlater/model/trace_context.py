"""What all parts know of tracing, whether or not OpenTelemetry is there; ``pinlater.tracing`` does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, Self

_TRACE_ID_CHARACTERS = 32


class Sending(Protocol):
    """Surrounds one enqueue, of a job or of many."""

    @property
    def trace(self) -> Mapping[str, str] | None:
        """The trace context that the jobs carry; None: they carry none."""

    def __enter__(self) -> Self: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None: ...

    def stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None:
        """Note what was stored.

        Args:
            queues: where to.
            jobs: how many.
            descriptor: of the one, if it was enqueued by itself.
        """


class RunTrace(Protocol):
    """The trace of a run of a job."""

    @property
    def context(self) -> Mapping[str, str]:
        """The trace context of the run itself, as it travels."""

    def sending(self, queue: str) -> Sending:
        """Return what surrounds the enqueue of a follow-up job."""


class Untraced:
    """A ``Sending`` that makes no span.

    Args:
        trace: what the jobs carry all the same.
    """

    def __init__(self, trace: Mapping[str, str] | None = None) -> None:
        self.trace = trace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None: ...


def trace_fields(context: Mapping[str, str]) -> dict[str, str]:
    """Return what a log line says of a trace context: the id of the trace, if its ``traceparent`` has one."""
    parts = context.get("traceparent", "").split("-")
    is_known = len(parts) >= 4 and len(parts[1]) == _TRACE_ID_CHARACTERS
    return {"trace_id": parts[1]} if is_known else {}


def texts_of(found: object) -> dict[str, str]:
    """Return what of a trace context in a body can be one: nobody has checked it."""
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}
