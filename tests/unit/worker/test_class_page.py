"""What a worker reports of its job classes: within its bounds, through memory that its processes share."""

from datetime import date
from typing import Any

import msgspec
import pytest

from pinlater.jobs.body_schemas import bounded_classes, job_class
from pinlater.jobs.job import Job, RawJob
from pinlater.model.workers import JobClass
from pinlater.protocol.conversion.workers import WORKER
from pinlater.worker.class_page import ClassPage
from pinlater.worker.keeper.report import build_report
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared


class Send(Job, queue="email", attempts=7, priority=2):
    """A docstring, which may be long."""

    user_id: int
    on: date | None = None

    def run(self, context: Any) -> None:
        pass


class Bytes(RawJob, queue="bytes"):
    def run(self, context: Any) -> None:
        pass


def test_a_class_is_told_with_its_schema():
    told = job_class(Send)
    assert told[:4] == ("Send", "email", 2, 7)
    defined = msgspec.json.decode(told.schema)["$defs"]["Send"]
    assert defined["properties"].keys() == {"job", "user_id", "on"}
    assert "docstring" not in told.schema
    assert job_class(Bytes).schema == ""


def test_classes_are_told_as_far_as_there_is_space():
    assert [one.name for one in bounded_classes([Send, Bytes], 10_000)] == ["Bytes", "Send"]
    short = bounded_classes([Send, Bytes], 200)
    assert [(one.name, one.schema) for one in short] == [("Bytes", ""), ("Send", "")]
    assert bounded_classes([Send, Bytes], 10) == []


def test_what_a_process_writes_the_report_has():
    shared = Shared.for_pools([JobPool()])
    assert build_report(shared).classes == []
    shared.class_page.write(bounded_classes([Send, Bytes], 10_000))
    report = build_report(shared)
    assert report.classes == bounded_classes([Send, Bytes], 10_000)
    [read] = WORKER.records([WORKER.struct(report)])
    assert list(read.classes) == list(report.classes)


@pytest.mark.parametrize("text", [b'[["Send"', b"\xff\xff", b"{}"])
def test_what_is_torn_is_not_read(text):
    page = ClassPage()
    page._memory[: len(text)] = text
    assert page.read() == []


def test_what_does_not_fit_is_not_written():
    page = ClassPage()
    page.write([JobClass("Send", "email", schema="x" * 100_000)])
    assert page.read() == []
