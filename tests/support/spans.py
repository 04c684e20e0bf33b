"""The spans that tests make; a process has one provider of them for good."""

import functools
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@functools.cache
def provider():
    found = TracerProvider()
    trace.set_tracer_provider(found)
    return found


@contextmanager
def exporting():
    """Keep the spans that end meanwhile."""
    found = InMemorySpanExporter()
    provider().add_span_processor(SimpleSpanProcessor(found))
    yield found
    found.shutdown()


def named(exporter, name):
    """Return the one span of that name."""
    [span] = [span for span in exporter.get_finished_spans() if span.name == name]
    return span
