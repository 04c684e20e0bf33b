"""What a list shows of a body, or of its beginning."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.model.body_summary import SUMMARY_BYTES, summarize
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("body", "job", "arguments"),
    [
        (b'{"job":"Send","user_id":42,"name":"ada"}', "Send", 'user_id=42, name="ada"'),
        (b' { "user_id" : 42 , "job" : "Send" } ', "Send", "user_id=42"),
        (b'{"job":"Send","$steps":{"a":1},"$again":{"due_ms":1}}', "Send", ""),
        (b'{"job":"Send","to":{"a":[1, 2]},"ok":true,"no":null}', "Send", 'to={"a":[1,2]}, ok=true, no=null'),
        ('{"job":"Send","name":"été \\u00e9"}'.encode(), "Send", 'name="été é"'),
        (b'{"job":"Send","user_id":42', "Send", "user_id=42…"),
        (b'{"job":"Send","name":"ada lo', "Send", 'name="ada lo…'),
        (b'{"job":"Send","name', "Send", ""),
        (b'{"job":"Se', "", 'job="Se…'),
        (b'{"job":7,"a":1}', "", "job=7, a=1"),
        (b'{"job":"Send","a":"\\ud800"}', "Send", 'a="?"'),
        (b'{"job":"Send","name":"\xc3', "Send", 'name="…'),
        (b'{"job":"Send","name":"' + b"x" * 60 + b'","b":1}', "Send", 'name="' + "x" * 38 + "…, b=1"),
        (b"user 42\nline", "", "user 42 line"),
        (b"[1, 2]", "", "[1, 2]"),
        (b"\x89PNG", "", "89 50 4e 47"),
        (b"", "", ""),
        (None, "", ""),
        (b'{"job":"Send","a":' + b"[" * 400, "Send", "a=" + "[" * 39 + "…"),
    ],
)
def test_class_and_arguments_are_told(body, job, arguments):
    assert summarize(body) == (job, arguments)


def test_arguments_are_cut_to_one_line():
    body = msgspec.json.encode({"job": "Send"} | {f"field_{number}": number for number in range(100)})
    job, arguments = summarize(body, 30)
    assert (job, len(arguments)) == ("Send", 30)
    assert arguments.startswith("field_0=0, field_1=1")
    assert arguments.endswith("…")


@examples(100)
@given(st.dictionaries(st.text(max_size=5), st.recursive(st.text() | st.integers(), st.lists), max_size=4), st.data())
def test_any_beginning_of_any_body_is_told(fields, data):
    body = msgspec.json.encode({"job": "Send", **fields})
    begin = body[: data.draw(st.integers(0, len(body)))]
    assert any(summarize(begin).job == name for name in ("Send", "", fields.get("job")))
    assert len(summarize(begin).arguments) <= 100


@examples(100)
@given(st.binary(max_size=2 * SUMMARY_BYTES))
def test_any_bytes_are_told(body):
    assert len(summarize(body).arguments) <= 100
