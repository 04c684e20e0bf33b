"""What surrounds an enqueue of a client, so that its jobs carry a trace context."""

from __future__ import annotations

from collections.abc import Callable

from pinlater.model.trace_context import EnqueueTrace, UntracedEnqueue

Sendings = Callable[[str | None], EnqueueTrace]
"""Takes the queue that all jobs go to; None if it is not known before."""

_UNTRACED = UntracedEnqueue()


def sendings(*, is_on: bool) -> Sendings:
    """Return what makes the span of an enqueue; one that makes none if tracing is off, which loads nothing.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    if not is_on:
        return _no_span
    from pinlater.tracing import SendSpan

    return SendSpan


def _no_span(_queue: str | None) -> EnqueueTrace:
    return _UNTRACED
