"""PinLater's own metadata in a job's body."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from pinlater import Job
from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import (
    METADATA_BYTE,
    BodyMetadata,
    MismatchMark,
    Recurrence,
    SagaMark,
    read_metadata,
    read_recurrence,
    replace_metadata,
)
from pinlater.model.messages import MAX_DROPPED
from pinlater.model.policy import Policy
from pinlater.model.progress import Progress
from pinlater.model.wait_records import CallRecord, EventRecord

SAMPLES = {
    "steps": {"a": 1},
    "progress": Progress(1),
    "sleeps": {"a": 1},
    "policy": Policy(timeout=5),
    "tries": {"a": (1, 2)},
    "enqueued": {"a": "mail:s1:p1:1"},
    "recurrence": Recurrence(5),
    "trace": {"traceparent": "x"},
    "previous": {"traceparent": "x"},
    "fingerprints": {"a": "f/Ab3xQ9"},
    "untyped": ["a"],
    "mismatch": MismatchMark("a", 5),
    "run_id": "x",
    "patches": {"a": True},
    "saga": SagaMark(["a"]),
    "calls": {"a": CallRecord(2, 1000)},
    "events": {"a": EventRecord(1)},
    "published": {"stage": "packing"},
    "times": {"a": (1, 2, 3)},
    "kept": 7,
    "prints": {"a": "Ab3xQ9"},
    "unneeded": {"call/0/a": 7},
}


class Walk(Job):
    name: str = "n"


def test_there_is_a_sample_of_everything():
    assert SAMPLES.keys() == set(BodyMetadata.__struct_fields__)


@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        ((Decimal("1.5"), Fraction(3)), (1.5, 3.0, "")),
        ((True, 2, None), (1.0, 2.0, "")),
        ((1, None, Path("a/caf\udce9")), (1.0, None, "a/caf\\udce9")),
    ],
)
def test_progress_of_whatever_type_can_be_read_by_the_next_attempt(reported, kept):
    metadata = BodyMetadata(steps={"a": 1}, progress=Progress(*reported))
    again = read_metadata(encode_body(Walk(), metadata))
    assert again.steps == {"a": 1}
    assert (again.progress.done, again.progress.total, again.progress.note) == kept


@pytest.mark.parametrize("field", SAMPLES)
def test_one_byte_tells_whether_a_body_may_have_metadata(field):
    assert METADATA_BYTE in encode_body(Walk(), BodyMetadata(**{field: SAMPLES[field]}))
    assert METADATA_BYTE not in encode_body(Walk(), BodyMetadata())


def test_the_recurrence_of_a_body():
    assert read_recurrence(encode_body(Walk(), BodyMetadata(recurrence=Recurrence(5, 6, "every 1.0")))) == Recurrence(
        5, 6, "every 1.0"
    )
    for body in (
        encode_body(Walk(name='"$again"')),
        b"",
        b"\xff",
        b'{"$again":5}',
        b'"$again"',
        b"[" * 10_000 + b'"$again"',
    ):
        assert read_recurrence(body) is None


def test_the_next_run_knows_that_it_is_the_next():
    assert BodyMetadata(steps={"a": 1}).for_next_run(9) == BodyMetadata(recurrence=Recurrence(9, 1))
    assert BodyMetadata(recurrence=Recurrence(9, 1, "every 1.0")).for_next_run(10) == BodyMetadata(
        recurrence=Recurrence(10, 2, "every 1.0")
    )


def test_a_body_with_new_metadata_has_the_same_fields():
    body = encode_body(Walk(name="x"), BodyMetadata(**SAMPLES))
    new = replace_metadata(body, BodyMetadata(recurrence=Recurrence(7)))
    assert read_metadata(new) == BodyMetadata(recurrence=Recurrence(7))
    assert msgspec.json.decode(new) == {"job": "Walk", "name": "x", "$again": {"due_ms": 7}}


def test_of_very_many_messages_that_no_run_needs_any_more_each_new_run_names_the_rest():
    again = CallRecord(3, 1000)
    metadata = BodyMetadata(calls={"a": CallRecord(2 * MAX_DROPPED + 1, 1000, again=again), "b": CallRecord(1, 1000)})
    assert metadata.droppable() == {"call/0/a": 2 * MAX_DROPPED + 1, "call/0/a/again": 3, "call/0/b": 1}
    second = metadata.for_next_run(5)
    assert second.unneeded == second.droppable() == {"call/0/a": MAX_DROPPED + 1}
    third = second.for_next_run(6)
    assert third.droppable() == {"call/0/a": 1}
    assert third.for_next_run(7).droppable() == {}
