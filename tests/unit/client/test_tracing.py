"""Spans of runs, and the context that comes with a job."""

import subprocess
import sys

import msgspec
import pytest
from opentelemetry import trace

from pinlater import Constant, Discard, Job, JobContext, JobInterrupted, RawJob, Retry, tracing
from pinlater.client.jobs import JobEncoder
from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import read_metadata, with_reports
from pinlater.testing import run_inline
from tests.support.spans import named
from tests.unit.project.test_layers import ROOT

seen: list[trace.SpanContext] = []


class Unprintable(Exception):
    def __str__(self):
        raise ZeroDivisionError


class Traced(Job, queue="traced", attempts=2, backoff=Constant(0)):
    ends: str = "well"
    went_back: bool = False

    def run(self, context: JobContext) -> None:
        seen.append(trace.get_current_span().get_span_context())
        if self.ends == "interrupted" and not self.went_back:
            self.went_back = True
            raise JobInterrupted
        if self.ends == "sleeps":
            context.sleep_for(60, name="night")
        errors = {
            "badly": ValueError("no"),
            "retry": Retry(),
            "discard": Discard("never"),
            "unprintable": Unprintable(),
        }
        if self.ends in errors:
            raise errors[self.ends]


class TracedLater(Traced, queue="traced", attempts=2, backoff=Constant(0)):
    async def run(self, context: JobContext) -> None:
        super().run(context)


class Foreign(RawJob, queue="foreign"):
    def run(self, context: JobContext) -> None:
        seen.append(trace.get_current_span().get_span_context())


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


@pytest.fixture(params=[Traced, TracedLater])
def kind(request):
    return request.param


def runs_of(exporter, job, parent=None):
    """Run a job, as if it had come with the context of a span named ``parent``."""
    with run_inline(Traced, TracedLater, Foreign, middleware=[tracing.traced]) as client:
        if parent is None:
            client.enqueue(job)
        else:
            with trace.get_tracer("test").start_as_current_span(parent):
                client._trace_enqueue = tracing.SendSpan
                client.enqueue(job)
    return [span for span in exporter.get_finished_spans() if span.kind is trace.SpanKind.CONSUMER]


def test_a_run_is_a_span_and_current_in_the_job(exporter, kind):
    [span] = runs_of(exporter, kind())
    assert span.name == "process traced"
    assert dict(span.attributes) == {
        "messaging.system": "pinlater",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "traced",
        "messaging.message.id": "traced:s1:p1:1",
        "pinlater.job.class": kind.__name__,
        "pinlater.job.attempt": 1,
        "pinlater.job.attempts_allowed": 2,
    }
    assert (span.parent, span.status.status_code) == (None, trace.StatusCode.UNSET)
    assert [found.span_id for found in seen] == [span.context.span_id]
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize(
    ("ends", "name", "runs"),
    [("badly", "ValueError", 2), ("retry", "Retry", 2), ("discard", "Discard", 1), ("unprintable", "Unprintable", 2)],
)
def test_failures_are_errors(exporter, kind, ends, name, runs):
    spans = runs_of(exporter, kind(ends=ends))
    assert [span.attributes["pinlater.job.attempt"] for span in spans] == list(range(1, runs + 1))
    for span in spans:
        assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, name)
        assert span.attributes["error.type"] == name


@pytest.mark.parametrize(("ends", "event"), [("interrupted", "pinlater.interrupted"), ("sleeps", "pinlater.sleeps")])
def test_give_backs_are_events(exporter, kind, ends, event):
    first, second = runs_of(exporter, kind(ends=ends), parent="sign up")
    assert [found.name for found in first.events] == [event]
    assert second.events == ()
    assert {span.status.status_code for span in (first, second)} == {trace.StatusCode.UNSET}
    assert first.parent == second.parent is not None, "what was saved has the context, too"


def test_the_context_of_the_enqueue_is_the_parent(exporter, kind):
    spans = runs_of(exporter, kind(ends="badly"), parent="sign up")
    origin, sent = named(exporter, "sign up"), named(exporter, "send traced")
    assert [span.parent.span_id for span in spans] == [sent.context.span_id] * 2
    assert sent.parent.span_id == origin.context.span_id
    assert {span.context.trace_id for span in [*spans, sent]} == {origin.context.trace_id}


def test_raw_bodies_are_left_alone(exporter):
    [span] = runs_of(exporter, Foreign(body=b'{"$trace": {}}'), parent="sign up")
    assert span.parent is None
    options = JobEncoder(trace={"traceparent": "x"})
    assert options.struct(Foreign(body=b"as it is")).body == b"as it is"
    with pytest.raises(BodyInvalid, match="backoff or time limit"):
        JobEncoder(trace={"traceparent": "x"}, timeout=1).struct(Foreign(body=b"as it is"))


@pytest.mark.parametrize("junk", [7, "x", ["traceparent"], {"traceparent": 7}, {"traceparent": "junk"}, None])
def test_junk_in_its_place_harms_no_job(exporter, junk):
    body = encode_body(Traced())[:-1] + b',"$trace":' + msgspec.json.encode(junk) + b"}"
    codec = JobCodec([Traced])
    assert codec.decode("traced", body) == Traced()
    with run_inline(Traced, middleware=[tracing.traced]) as client:
        claimed = JobEncoder().struct(Traced())
        claimed.body = body
        client._execute(client._calls.enqueue_structs("traced", [claimed]))
        client.assert_succeeded()
    [span] = exporter.get_finished_spans()
    assert span.parent is None


def test_the_context_is_kept_beside_the_rest_and_not_by_the_next_run():
    body = JobEncoder(trace={"traceparent": "x"}, timeout=5).struct(Traced()).body
    kept = read_metadata(with_reports(body, read_metadata(b'{"$progress":{"done":1}}')))
    assert (kept.trace, kept.policy.timeout, kept.progress.done) == ({"traceparent": "x"}, 5, 1)
    following = kept.for_next_run(0, {"traceparent": "y"})
    assert (following.trace, following.previous) == (None, {"traceparent": "y"})


def test_nobody_loads_opentelemetry_unless_asked():
    code = (
        "import sys, pinlater.client, pinlater.worker.boot, pinlater.testing.inline\n"
        "sys.exit(any(name.split('.')[0] == 'opentelemetry' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=30, check=False).returncode == 0
