"""Optional tracing of a client's enqueues; jobs then carry a trace context."""

from __future__ import annotations

from collections.abc import Callable

from pinlater.model.trace_context import EnqueueTrace, UntracedEnqueue

EnqueueTracer = Callable[[str | None], EnqueueTrace]
"""Starts the trace of an enqueue to a queue; None if the queue is not known yet."""

_UNTRACED = UntracedEnqueue()


def enqueue_tracer(*, is_on: bool) -> EnqueueTracer:
    """Return the tracer of enqueues; with tracing off, it makes no spans and imports nothing.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    if not is_on:
        return lambda _queue: _UNTRACED
    from pinlater.tracing import SendSpan

    return SendSpan
