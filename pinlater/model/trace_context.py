"""Tracing interfaces that need no OpenTelemetry; ``pinlater.tracing`` implements them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, Self

_TRACE_ID_CHARACTERS = 32


class EnqueueTrace(Protocol):
    """Context manager around one enqueue of one or many jobs."""

    @property
    def trace(self) -> Mapping[str, str] | None:
        """Trace context to store with the jobs; None for no context."""

    def __enter__(self) -> Self: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None: ...

    def record_stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None:
        """Record the stored jobs.

        Args:
            queues: their queues.
            jobs: their number.
            descriptor: descriptor of a single job.
        """


class RunTrace(Protocol):
    """Trace of one run of a job."""

    @property
    def context(self) -> Mapping[str, str]:
        """Trace context of the run, as a carrier."""

    def trace_enqueue(self, queue: str) -> EnqueueTrace:
        """Return the context manager for the enqueue of a follow-up job."""


class UntracedEnqueue:
    """An ``EnqueueTrace`` without a span.

    Args:
        trace: trace context to store with the jobs.
    """

    def __init__(self, trace: Mapping[str, str] | None = None) -> None:
        self.trace = trace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def record_stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None: ...


def trace_log_fields(context: Mapping[str, str]) -> dict[str, str]:
    """Return the log fields of a trace context: the trace id, if its ``traceparent`` has one."""
    parts = context.get("traceparent", "").split("-")
    is_known = len(parts) >= 4 and len(parts[1]) == _TRACE_ID_CHARACTERS
    return {"trace_id": parts[1]} if is_known else {}


def read_trace_context(found: object) -> dict[str, str]:
    """Return the usable part of a trace context from a body, which nobody has validated."""
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}
