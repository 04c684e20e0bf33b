"""What is kept of a job in its body, beside its fields."""

import msgspec
import pytest

from pinlater import Job
from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import KEPT_SIGN, Again, Kept, Progress, again_in, kept_in, renewed
from pinlater.model.policy import Policy

SAMPLES = {
    "steps": {"a": 1},
    "progress": Progress(1),
    "sleeps": {"a": 1},
    "policy": Policy(timeout=5),
    "tries": {"a": (1, 2)},
    "enqueued": {"a": "mail:s1:p1:1"},
    "again": Again(5),
    "trace": {"traceparent": "x"},
    "previous": {"traceparent": "x"},
}


class Walk(Job):
    name: str = "n"


def test_there_is_a_sample_of_everything():
    assert SAMPLES.keys() == set(Kept.__struct_fields__)


@pytest.mark.parametrize("field", SAMPLES)
def test_one_byte_tells_whether_anything_may_be_kept(field):
    assert KEPT_SIGN in encode_body(Walk(), Kept(**{field: SAMPLES[field]}))
    assert KEPT_SIGN not in encode_body(Walk(), Kept())


def test_who_comes_again():
    assert again_in(encode_body(Walk(), Kept(again=Again(5, 6, "every 1.0")))) == Again(5, 6, "every 1.0")
    for body in (
        encode_body(Walk(name='"$again"')),
        b"",
        b"\xff",
        b'{"$again":5}',
        b'"$again"',
        b"[" * 10_000 + b'"$again"',
    ):
        assert again_in(body) is None


def test_the_next_run_knows_that_it_is_the_next():
    assert Kept(steps={"a": 1}).for_next_run(9) == Kept(again=Again(9, 1))
    assert Kept(again=Again(9, 1, "every 1.0")).for_next_run(10) == Kept(again=Again(10, 2, "every 1.0"))


def test_a_renewed_body_has_the_same_fields():
    body = encode_body(Walk(name="x"), Kept(**SAMPLES))
    new = renewed(body, Kept(again=Again(7)))
    assert kept_in(new) == Kept(again=Again(7))
    assert msgspec.json.decode(new) == {"job": "Walk", "name": "x", "$again": {"due_ms": 7}}
