"""Job descriptors: one text for each job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from tests.support.examples import examples

descriptors = st.builds(
    JobDescriptor,
    st.from_regex(r"[A-Za-z0-9_]{1,58}", fullmatch=True),
    st.from_regex(r"[0-9]{1,3}(d[0-9])?", fullmatch=True),
    st.integers(1, 127),
    st.integers(0, 2**63 - 1),
)


@examples(100)
@given(descriptors)
def test_there_and_back(descriptor):
    assert JobDescriptor.parse(str(descriptor)) == descriptor


def test_the_form_of_the_contract():
    assert JobDescriptor.parse("test_queue:s1d1:p1:1") == ("test_queue", "1d1", 1, 1)
    assert str(JobDescriptor("test_queue", "1d1", 1, 1)) == "test_queue:s1d1:p1:1"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ":", ":::", "q", "q:s1:p1", "q:s1:p1:", "q:s1:p1:7:", ":s1:p1:7", "q::p1:7", "q:s:p1:7", "q:s1::7",
        "q:s1:p:7", "q:X1:p1:7", "q:s1:Z1:7", "q:s1:p1:+7", "q:s1:p1:-7", "q:s1:p1: 7", "q:s1:p1:7 ", "q:s1:p1:7\n",
        "q:s1:p+1:7", "q:s1:p-1:7", "q:s1:p1:x", "q:s1:p1:1_000", "q:s1:p1:٣", "q:s1:p1:²", "q:s1:p٣:7", "a-b:s1:p1:7",
        "é:s1:p1:7", "q:s1:p1:9223372036854775808", "q:s1:p1:" + "9" * 5000, "q:s1:p" + "1" * 5000 + ":7", "\0:s1:p1:7",
        "q\n:s1:p1:7", "q:s1:p01:7", "q:s1:p1:07", "q:s1:p1:00", "q:s1:p00:7",
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(UnknownError, match="malformed job descriptor") as caught:
        JobDescriptor.parse(text)
    assert len(str(caught.value)) < 1000
    assert repr(text[:200]) in str(caught.value), "all of it, as it was written"


@pytest.mark.parametrize("given_instead", [None, 5, b"q:s1:p1:7", object()])
def test_what_is_no_text_is_told_what_to_give(given_instead):
    with pytest.raises(TypeError, match=r"a job descriptor is a text, such as handle\.descriptor; got"):
        JobDescriptor.parse(given_instead)


@examples(150)
@given(st.text(max_size=30) | st.from_regex(r"q:s[01]{1,2}:p[01]{1,2}:[01]{1,3}", fullmatch=True))
def test_no_two_texts_mean_the_same_job(text):
    try:
        found = JobDescriptor.parse(text)
    except UnknownError:
        return
    assert str(found) == text


def test_the_largest_id():
    assert JobDescriptor.parse("q:s1:p1:9223372036854775807").local_id == 2**63 - 1
