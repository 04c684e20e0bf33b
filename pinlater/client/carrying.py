"""Where the trace context comes from that jobs carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping

TraceSource = Callable[[], Mapping[str, str] | None]


def trace_source(*, is_on: bool) -> TraceSource:
    """Return what gives the present trace context; None if tracing is off, which loads nothing.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    if not is_on:
        return _nothing
    from pinlater.tracing import present_context

    return present_context


def _nothing() -> None:
    return None
