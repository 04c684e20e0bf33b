"""The spans that tests make; a process has one provider of them for good, which all tests share."""

from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_tracer_provider, set_tracer_provider


def provider():
    found = get_tracer_provider()
    if not isinstance(found, TracerProvider):
        found = TracerProvider()
        set_tracer_provider(found)
    return found


def join(other):
    """Do what ``set_tracer_provider`` is called for, for those who bring a provider: theirs hears of all spans."""
    provider().add_span_processor(other._active_span_processor)


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
