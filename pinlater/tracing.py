"""OpenTelemetry: a span for each run of a job, in the trace of whoever enqueued it. Needs ``pinlater[otel]``.

The worker gets the middleware; its SDK is set up by a module of yours, or by ``opentelemetry-instrument``::

    pinlater-worker my_jobs --middleware pinlater.tracing:traced

The client puts the present trace context into the bodies of the jobs that it enqueues, if it is told to::

    with Client(tracing=True) as client, tracer.start_as_current_span("sign up"):
        client.enqueue(SendWelcomeEmail(user_id=42))

The context stays with the job over its attempts, sleeps and interruptions: each run is a span below the one that
enqueued it. What a job enqueues with a client of its own is below the span of its run. A rescheduled job's next run
begins a trace of its own. The bodies of ``RawJob`` are left as they are.

Attributes are those of the semantic conventions for messaging, and ``pinlater.job.class``, ``pinlater.job.attempt`` and
``pinlater.job.attempts_allowed``. A failure, ``Retry`` and ``Discard`` are the status ERROR; that a job goes back to be
continued is an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    from opentelemetry import propagate, trace
except ImportError as missing:
    raise ImportError("tracing needs OpenTelemetry: pip install 'pinlater[otel]'") from missing

from pinlater.context import JobContext
from pinlater.errors import JobInterrupted, JobSleeps, interruption_in
from pinlater.job import Job


@contextmanager
def traced(job: Job, context: JobContext) -> Iterator[None]:
    """Surround a run with a span of the kind CONSUMER; a ``pinlater.Middleware``."""
    span = trace.get_tracer("pinlater").start_span(
        f"process {context.queue}",
        context=propagate.extract(context.trace_context),
        kind=trace.SpanKind.CONSUMER,
        attributes={
            "messaging.system": "pinlater",
            "messaging.operation.type": "process",
            "messaging.operation.name": "run",
            "messaging.destination.name": context.queue,
            "messaging.message.id": context.descriptor,
            "pinlater.job.class": job.job_options.name,
            "pinlater.job.attempt": context.attempt,
            "pinlater.job.attempts_allowed": context.attempts_allowed,
        },
    )
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            _note(span, error)
            raise


def present_context() -> dict[str, str]:
    """Return the context of the present span, as it travels: ``traceparent``, and what else the propagators write."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


def _note(span: trace.Span, error: BaseException) -> None:
    given_back = interruption_in(error)
    if given_back is not None:
        _note_give_back(span, given_back)
        return
    kind = type(error).__qualname__
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR, kind)
    with suppress(Exception):  # what the exception says is the job's own code
        span.record_exception(error)


def _note_give_back(span: trace.Span, given_back: JobInterrupted) -> None:
    if isinstance(given_back, JobSleeps):
        span.add_event("pinlater.sleeps", {"pinlater.until_ms": given_back.until_ms})
    else:
        span.add_event("pinlater.interrupted")
