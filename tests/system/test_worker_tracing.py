"""Spans of a real worker's jobs, in the trace of a real client."""

import json

import pytest
from opentelemetry import trace

from pinlater import Client, Job
from tests.support.spans import exporting, named
from tests.system.worker_program import wait_for

TELEMETRY = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from pinlater.tracing import traced

provider = TracerProvider()
file = open("spans.jsonl", "a")
provider.add_span_processor(
    SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + os.linesep))
)
trace.set_tracer_provider(provider)
"""


class Touch(Job, queue="touch"):
    number: int

    def run(self, context): ...


@pytest.mark.parametrize("several", [(), ("--threads", 2)])
def test_a_run_is_part_of_the_trace_of_its_enqueue(start, server, folder, several):
    (folder / "telemetry.py").write_text(TELEMETRY)
    worker = start("--processes", 1, "--middleware", "telemetry:traced", *several)
    with exporting() as sent, Client(server.address, tracing=True) as client:
        handle = client.enqueue(Touch(number=1))
        handle.wait(timeout=20)
        origin = named(sent, "send touch")
    spans = folder / "spans.jsonl"
    wait_for(lambda: spans.exists() and spans.read_text().endswith("\n"), what=lambda: worker.log)
    [span] = [json.loads(line) for line in spans.read_text().splitlines()]
    assert span["parent_id"] == f"0x{trace.format_span_id(origin.context.span_id)}"
    assert span["context"]["trace_id"] == f"0x{trace.format_trace_id(origin.context.trace_id)}"
    assert span["attributes"]["messaging.message.id"] == handle.descriptor
    assert worker.stop() == 0
