"""Spans of enqueues, by clients and by jobs, and the links of runs that follow each other."""

import asyncio
import threading
from time import monotonic_ns

import pytest
from opentelemetry import trace

from pinlater import AsyncClient, Client, Job, JobContext, tracing
from pinlater.errors import QueueNotFound
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, BodyMetadata, Recurrence, read_metadata
from pinlater.protocol.messages import PinLaterEnqueueResponse
from pinlater.testing import run_inline
from pinlater.worker.running.runner import Runner
from tests.support.spans import named
from tests.unit.client.fake_server import FakeServer
from tests.unit.worker.fakes import batch_of, new_row

TICK_MS = 1_800_000_000_000


class Mail(Job, queue="mail"):
    to: str = "ada"

    def run(self, context: JobContext) -> None: ...


class Bill(Job, queue="bills"):
    how: str = ""

    def run(self, context: JobContext) -> None:
        if self.how == "thread":
            thread = threading.Thread(target=lambda: context.enqueue(Mail(), name="mail"))
            thread.start()
            thread.join()
        elif self.how == "span":
            with trace.get_tracer("test").start_as_current_span("within"):
                context.enqueue(Mail(), name="mail")
        else:
            context.enqueue(Mail(), name="mail")
            context.enqueue(Mail(), name="mail")


class Tidy(Job, queue="tidy", every=60, attempts=2):
    how: str = ""

    def run(self, context: JobContext) -> None:
        if self.how == "fails":
            raise ValueError("no")


class Again60(Job, queue="again"):
    def run(self, context: JobContext) -> None:
        context.reschedule(after=60)


def answer(call):
    request = call.arguments.request
    if request.queueName == "missing":
        return QueueNotFound("missing")
    return PinLaterEnqueueResponse([f"{request.queueName}:s1:p1:{number}" for number, _ in enumerate(request.jobs)])


@pytest.fixture
def server():
    with FakeServer(answer) as server:
        yield server


def bodies(server):
    return [job.body for call in server.calls for job in call.arguments.request.jobs]


def use_sync(server, use, **options):
    with Client(str(server.address), **options) as client:
        return use(client)


def use_async(server, use, **options):
    async def main():
        async with AsyncClient(str(server.address), **options) as client:
            return await use(client)

    return asyncio.run(main())


@pytest.fixture(params=[use_sync, use_async])
def use(request, server):
    return lambda what, **options: request.param(server, what, **options)


def carried(body):
    """Return the span whose context a body has."""
    found = trace.get_current_span(tracing.propagate.extract(read_metadata(body).trace)).get_span_context()
    return found.span_id, found.trace_id


def identity(span):
    return span.context.span_id, span.context.trace_id


# By clients


def test_an_enqueue_is_a_span_whose_context_the_job_carries(exporter, server, use):
    with trace.get_tracer("test").start_as_current_span("sign up"):
        use(lambda client: client.enqueue(Mail()), tracing=True)
    span = named(exporter, "send mail")
    assert dict(span.attributes) == {
        "messaging.system": "pinlater",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "mail",
        "messaging.message.id": "mail:s1:p1:0",
    }
    assert (span.kind, span.status.status_code) == (trace.SpanKind.PRODUCER, trace.StatusCode.UNSET)
    assert span.parent.span_id == named(exporter, "sign up").context.span_id
    assert [carried(body) for body in bodies(server)] == [identity(span)]


def test_many_jobs_are_one_span(exporter, server, use):
    use(lambda client: client.enqueue_many([Mail() for _ in range(25)], batch_size=10), tracing=True)
    [span] = exporter.get_finished_spans()
    assert (span.name, span.parent) == ("send mail", None)
    assert span.attributes["messaging.batch.message_count"] == 25
    assert span.attributes["messaging.destination.name"] == "mail"
    assert "messaging.message.id" not in span.attributes
    assert {carried(body) for body in bodies(server)} == {identity(span)}


def test_a_span_to_several_queues_names_none(exporter, server, use):
    use(lambda client: client.enqueue_many([Mail(), Bill()]), tracing=True)
    [span] = exporter.get_finished_spans()
    assert (span.name, span.attributes["messaging.batch.message_count"]) == ("send", 2)
    assert "messaging.destination.name" not in span.attributes


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many"])
def test_a_refused_enqueue_is_an_error(exporter, use, verb):
    with pytest.raises(QueueNotFound):
        use(
            lambda client: getattr(client, verb)(Mail() if verb == "enqueue" else [Mail()], queue="missing"),
            tracing=True,
        )
    [span] = exporter.get_finished_spans()
    assert (span.name, span.status.status_code) == ("send missing", trace.StatusCode.ERROR)
    assert span.attributes["error.type"] == "QueueNotFound"


def test_a_client_makes_no_span_unless_told(exporter, server, use):
    with trace.get_tracer("test").start_as_current_span("sign up"):
        use(lambda client: client.enqueue(Mail()))
        use(lambda client: client.enqueue_many([Mail()]))
    assert [span.name for span in exporter.get_finished_spans()] == ["sign up"]
    assert [read_metadata(body).trace for body in bodies(server)] == [None, None]


# By jobs


@pytest.mark.parametrize(("how", "parent"), [("", "process bills"), ("thread", "process bills"), ("span", "within")])
def test_a_follow_up_is_below_the_run_that_wants_it(exporter, how, parent):
    with run_inline(Bill, Mail, middleware=[tracing.traced]) as client:
        client.enqueue(Bill(how=how))
        client.assert_succeeded()
    origin, first = named(exporter, parent), named(exporter, "process bills")
    sent = [span for span in exporter.get_finished_spans() if span.name == "send mail"]
    runs = [span for span in exporter.get_finished_spans() if span.name == "process mail"]
    assert len(sent) == len(runs) == (1 if how else 2)
    assert {span.parent.span_id for span in sent} == {origin.context.span_id}
    assert [span.parent.span_id for span in runs] == [span.context.span_id for span in sent]
    assert {span.context.trace_id for span in [*sent, *runs]} == {first.context.trace_id}
    assert [span.attributes["messaging.message.id"] for span in sent] == [
        span.attributes["messaging.message.id"] for span in runs
    ]


def test_without_the_middleware_follow_ups_carry_what_their_parent_came_with(exporter):
    with run_inline(Bill, Mail) as client:
        client._trace_enqueue = tracing.SendSpan
        client.enqueue(Bill(how="thread"))
        traces = [read_metadata(job.body).trace for job in client._jobs.values()]
    [sent] = exporter.get_finished_spans()
    assert traces[0] == traces[1]
    assert sent.context.span_id == int(traces[0]["traceparent"].split("-")[2], 16)


def test_a_follow_up_of_a_job_without_a_trace_has_none():
    with run_inline(Bill, Mail) as client:
        client.enqueue(Bill())
        assert [read_metadata(job.body).trace for job in client._jobs.values()] == [None] * 3


# Run after run


def run(kind, body, attempt=1):
    """Run an attempt with the middleware; return the body that it leaves."""
    codec = JobCodec([kind])
    allowed = 2 + PERIODIC_SPARE_ATTEMPTS
    batch = batch_of(
        f"{kind.job_options.queue}:s1:p1:7",
        bodies=[body],
        row=new_row(),
        allowed=allowed,
        remaining=allowed + 1 - attempt,
    )
    runner = Runner(codec, Saver(), now=lambda: TICK_MS / 1000, middleware=[tracing.traced])
    return runner.run(batch, 0, monotonic_ns()).body


class Saver:
    is_draining = False


@pytest.mark.parametrize(
    ("kind", "kept", "how"),
    [
        (Tidy, BodyMetadata(recurrence=Recurrence(TICK_MS, 4, "every 60.0")), {}),
        (Tidy, BodyMetadata(recurrence=Recurrence(TICK_MS, 4, "every 60.0")), {"how": "fails"}),
        (Again60, None, {}),
    ],
)
def test_each_run_begins_a_trace_that_is_linked_to_the_run_before(exporter, kind, kept, how):
    body = encode_body(kind(**how), kept)
    attempt = 2 if how else 1
    for _ in range(3):
        body = run(kind, body, attempt)
    spans = exporter.get_finished_spans()
    assert [span.parent for span in spans] == [None] * 3
    assert len({span.context.trace_id for span in spans}) == 3
    assert [[link.context.span_id for link in span.links] for span in spans] == [
        [],
        [spans[0].context.span_id],
        [spans[1].context.span_id],
    ]
    assert read_metadata(body).trace is None


@pytest.mark.parametrize("junk", [7, ["traceparent"], {"traceparent": 7}, {"traceparent": "junk"}])
def test_junk_in_the_place_of_the_run_before_harms_no_job(exporter, junk):
    run(Again60, encode_body(Again60(), BodyMetadata(previous=junk)))
    [span] = exporter.get_finished_spans()
    assert (span.links, span.status.status_code) == ((), trace.StatusCode.UNSET)
