"""OpenTelemetry spans of enqueues and runs, in one trace. Needs ``pinlater[otel]``.

Pass the middleware to the worker. One of your modules, or ``opentelemetry-instrument``, sets up the SDK::

    pinlater-worker my_jobs --middleware pinlater.tracing:traced

With ``tracing=True`` the client creates a span for each ``enqueue`` and ``enqueue_many`` and stores the span's context
in the bodies of the jobs::

    with Client(tracing=True) as client, tracer.start_as_current_span("sign up"):
        client.enqueue(SendWelcomeEmail(user_id=42))

The context stays with the job through its attempts, sleeps and interruptions: each run is a child span of the enqueue.
A job that the run enqueues, with ``context.enqueue`` or a tracing client, is a child of the run's span. Without the
middleware in the worker, follow-up jobs inherit the context of their parent job. A rescheduled run, such as each run of
a periodic job, starts a new trace with a link to the previous run. Bodies of ``RawJob`` are not changed.

Attributes follow the semantic conventions for messaging, with ``pinlater.job.class``, ``pinlater.job.attempt`` and
``pinlater.job.attempts_allowed`` added. A failure, ``Retry`` or ``Discard`` sets the status ERROR; an interruption or a
sleep is an event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Self

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
except ImportError as missing:
    raise ImportError("tracing needs OpenTelemetry: pip install 'pinlater[otel]'") from missing

from pinlater.errors import JobCancelled, JobSleeps, interruption_in
from pinlater.jobs.context import JobContext
from pinlater.jobs.job import Job
from pinlater.model.trace_context import EnqueueTrace, RunTrace

_SYSTEM = {"messaging.system": "pinlater"}


@contextmanager
def traced(job: Job, context: JobContext) -> Iterator[None]:
    """Wrap a run in a span of kind CONSUMER; a ``pinlater.Middleware``."""
    span = _tracer().start_span(
        f"process {context.queue}",
        context=propagate.extract(context.trace_context),
        kind=trace.SpanKind.CONSUMER,
        links=_links_to(context.previous_trace_context),
        attributes={
            **_SYSTEM,
            "messaging.operation.type": "process",
            "messaging.operation.name": "run",
            "messaging.destination.name": context.queue,
            "messaging.message.id": context.descriptor,
            "pinlater.job.class": job.job_options.name,
            "pinlater.job.attempt": context.attempt,
            "pinlater.job.attempts_allowed": context.attempts_allowed,
        },
    )
    context.run_trace = _RunSpan(span)
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            _record(span, error)
            raise


class SendSpan(EnqueueTrace):
    """Span of one enqueue, of kind PRODUCER; its context is stored with the jobs.

    It does not become the current span, so spans that start in the meantime, for example in a generator of jobs, are
    not its children.

    Args:
        queue: queue of the jobs; None if they may go to several queues.
        parent: context of the parent span; None for the current one.
    """

    def __init__(self, queue: str | None, parent: Context | None = None) -> None:
        known = {} if queue is None else {"messaging.destination.name": queue}
        self._queue = queue
        self._span = _tracer().start_span(
            "send" if queue is None else f"send {queue}",
            context=parent,
            kind=trace.SpanKind.PRODUCER,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "send",
                "messaging.operation.name": "enqueue",
                **known,
            },
        )

    @property
    def trace(self) -> Mapping[str, str]:
        """Context of the span as a carrier."""
        return _carrier(self._span)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            _record_error(self._span, error)
        self._span.end()

    def record_stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None:
        """Set the attributes for the stored jobs: the descriptor of a single job, or the number of jobs."""
        if descriptor:
            self._span.set_attribute("messaging.message.id", descriptor)
        else:
            self._span.set_attribute("messaging.batch.message_count", jobs)
        if self._queue is None and len(queues) == 1:
            [queue] = queues
            self._span.update_name(f"send {queue}")
            self._span.set_attribute("messaging.destination.name", queue)


class _RunSpan(RunTrace):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def context(self) -> Mapping[str, str]:
        return _carrier(self._span)

    def trace_enqueue(self, queue: str) -> EnqueueTrace:
        """Start the span of a follow-up job's enqueue, even in a thread of the job without a current span."""
        current = trace.get_current_span()
        is_within = current.get_span_context().trace_id == self._span.get_span_context().trace_id
        return SendSpan(queue, trace.set_span_in_context(current if is_within else self._span))


def _tracer() -> trace.Tracer:
    return trace.get_tracer("pinlater")


def _carrier(span: trace.Span) -> dict[str, str]:
    """Return the context of a span as a carrier: ``traceparent``, and whatever other propagators add."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    return carrier


def _links_to(carrier: Mapping[str, str]) -> list[trace.Link]:
    found = trace.get_current_span(propagate.extract(carrier)).get_span_context()
    return [trace.Link(found)] if found.is_valid else []


def _record(span: trace.Span, error: BaseException) -> None:
    interruption = interruption_in(error)
    if interruption is None:
        _record_error(span, error)
    elif isinstance(interruption, JobSleeps):
        span.add_event("pinlater.sleeps", {"pinlater.until_ms": interruption.until_ms})
    else:
        is_cancelled = isinstance(interruption, JobCancelled)
        span.add_event("pinlater.cancelled" if is_cancelled else "pinlater.interrupted")


def _record_error(span: trace.Span, error: BaseException) -> None:
    kind = type(error).__qualname__
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR, kind)
    with suppress(Exception):  # the exception's text comes from the job's own code
        span.record_exception(error)
