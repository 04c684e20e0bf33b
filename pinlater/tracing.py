"""OpenTelemetry: spans of enqueues and of runs, in one trace. Needs ``pinlater[otel]``.

The worker gets the middleware; its SDK is set up by a module of yours, or by ``opentelemetry-instrument``::

    pinlater-worker my_jobs --middleware pinlater.tracing:traced

The client makes a span of each ``enqueue`` and ``enqueue_many``, and puts its context into the bodies of the jobs, if
it is told to::

    with Client(tracing=True) as client, tracer.start_as_current_span("sign up"):
        client.enqueue(SendWelcomeEmail(user_id=42))

The context stays with the job over its attempts, sleeps and interruptions: each run is a span below the one that
enqueued it. What a job enqueues with ``context.enqueue``, or with such a client of its own, is below the span of its
run; a worker without the middleware lets follow-ups carry what their parent has come with. A run that was rescheduled,
as each run of a periodic job is, begins a trace of its own, with a link to the run before it. The bodies of ``RawJob``
are left as they are.

Attributes are those of the semantic conventions for messaging, and ``pinlater.job.class``, ``pinlater.job.attempt`` and
``pinlater.job.attempts_allowed``. A failure, ``Retry`` and ``Discard`` are the status ERROR; that a job goes back to be
continued is an event.
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

from pinlater.errors import JobSleeps, interruption_in
from pinlater.jobs.context import JobContext
from pinlater.jobs.job import Job
from pinlater.model.trace_context import RunTrace, Sending

_SYSTEM = {"messaging.system": "pinlater"}


@contextmanager
def traced(job: Job, context: JobContext) -> Iterator[None]:
    """Surround a run with a span of the kind CONSUMER; a ``pinlater.Middleware``."""
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
            _note(span, error)
            raise


class SendSpan(Sending):
    """The span of one enqueue, of the kind PRODUCER; jobs carry its context.

    It is not made the present span: what happens meanwhile, such as in the generator that yields the jobs, is no part
    of the sending.

    Args:
        queue: where the jobs go; None if they need not all go to the same one.
        below: the context whose span it is below; None: the present one.
    """

    def __init__(self, queue: str | None, below: Context | None = None) -> None:
        known = {} if queue is None else {"messaging.destination.name": queue}
        self._queue = queue
        self._span = _tracer().start_span(
            "send" if queue is None else f"send {queue}",
            context=below,
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
        """The context of the span, as it travels."""
        return _carrier(self._span)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            _note_error(self._span, error)
        self._span.end()

    def stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None:
        """Note what was stored, as the conventions want it: of one job its name, of many their number."""
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

    def sending(self, queue: str) -> Sending:
        """Return the span of a follow-up's enqueue, also in a thread of the job's, to which no context has come."""
        present = trace.get_current_span()
        is_within = present.get_span_context().trace_id == self._span.get_span_context().trace_id
        return SendSpan(queue, trace.set_span_in_context(present if is_within else self._span))


def _tracer() -> trace.Tracer:
    return trace.get_tracer("pinlater")


def _carrier(span: trace.Span) -> dict[str, str]:
    """Return the context of a span, as it travels: ``traceparent``, and what else the propagators write."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    return carrier


def _links_to(carrier: Mapping[str, str]) -> list[trace.Link]:
    found = trace.get_current_span(propagate.extract(carrier)).get_span_context()
    return [trace.Link(found)] if found.is_valid else []


def _note(span: trace.Span, error: BaseException) -> None:
    given_back = interruption_in(error)
    if given_back is None:
        _note_error(span, error)
    elif isinstance(given_back, JobSleeps):
        span.add_event("pinlater.sleeps", {"pinlater.until_ms": given_back.until_ms})
    else:
        span.add_event("pinlater.interrupted")


def _note_error(span: trace.Span, error: BaseException) -> None:
    kind = type(error).__qualname__
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR, kind)
    with suppress(Exception):  # what the exception says is the job's own code
        span.record_exception(error)
