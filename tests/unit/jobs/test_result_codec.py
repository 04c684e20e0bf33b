"""Results of jobs: their types, what is kept of them, what is read again."""

import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import pytest

from pinlater.errors import ConfigError, ResultInvalid, ResultTooLarge
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.result_codec import check_result, decode_result, encode_result
from pinlater.jobs.result_type import UNDECLARED, result_type

_ItemT = TypeVar("_ItemT")


@dataclass
class Size:
    width: int
    at: datetime


class Plain(Job):
    pass


class Resize(Job[Size]):
    pass


class ResizeTwice(Resize):
    pass


class Listing(Job[list[_ItemT]], Generic[_ItemT]):
    pass


class Sizes(Listing[Size]):
    pass


class Later(Job["Below"]):
    pass


@dataclass
class Below:
    number: int


class Maybe(Job[int | None]):
    pass


class Raw(RawJob):
    pass


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (Plain, UNDECLARED),
        (Resize, Size),
        (ResizeTwice, Size),
        (Listing, list),
        (Sizes, list[Size]),
        (Later, Below),
        (Maybe, int | None),
    ],
)
def test_the_type_is_that_of_the_class_header(kind, declared):
    found = result_type(kind)
    assert found == declared or (kind is Listing and found.__origin__ is list)


def test_a_result_comes_back_as_its_type():
    size = Size(640, datetime(2026, 11, 23, tzinfo=UTC))
    assert decode_result(Resize, encode_result(Resize(), size)) == size
    assert decode_result(Sizes, encode_result(Sizes(), [size])) == [size]


@pytest.mark.parametrize("value", [3, None])
def test_a_result_may_be_none_where_its_type_says_so(value):
    assert decode_result(Maybe, encode_result(Maybe(), value)) == value


@pytest.mark.parametrize("value", ["3", None, object(), {"width": 1}])
def test_what_does_not_fit_the_type_is_refused(value):
    with pytest.raises(ResultInvalid, match=r"Resize returned a .* that does not fit Job\[Size\]"):
        encode_result(Resize(), value)


def test_a_number_that_json_has_no_word_for_is_refused():
    class Ratio(Job[float]):
        pass

    with pytest.raises(ResultInvalid, match="nan"):
        encode_result(Ratio(), math.nan)


def test_a_large_result_is_refused_and_the_error_says_what_to_do():
    class Short(Job[str], max_result=10):
        pass

    assert encode_result(Short(), "x" * 8) == b'"xxxxxxxx"'
    with pytest.raises(ResultTooLarge, match=r"11 bytes.*allows 10.*max_result"):
        encode_result(Short(), "x" * 9)


def test_what_a_class_without_a_type_returns_is_dropped_with_one_warning(caplog):
    class Silent(Job):
        pass

    with caplog.at_level(logging.WARNING):
        assert [encode_result(Silent(), value) for value in (None, 3, 3)] == [None] * 3
    (line,) = caplog.messages
    assert "what Silent returns, a value of type int, is dropped" in line
    assert "class Silent(Job[int])" in line


async def work_later():
    pytest.fail("nobody awaits it")


def work_one_by_one():
    yield pytest.fail("nobody iterates over it")


async def work_later_one_by_one():
    yield pytest.fail("nobody iterates over it")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (work_later, "returned a coroutine, of which nothing was run: await it in run"),
        (work_one_by_one, "returned a generator, of which nothing was run: iterate over it in run"),
        (work_later_one_by_one, "returned a generator, of which nothing was run: iterate over it in run"),
    ],
)
@pytest.mark.parametrize("job", [Plain(), Resize(), Raw(body=b"")])
def test_work_that_was_returned_instead_of_done_is_no_success(job, work, words):
    with pytest.raises(ResultInvalid, match=f"^{type(job).__name__} {words}"):
        encode_result(job, work())


def test_generators_of_which_somebody_wanted_something_and_values_are_no_work():
    begun = iter(n for n in (1, 2))
    next(begun)
    assert encode_result(Plain(), begun) is None
    assert encode_result(Plain(), (n for n in (1, 2))) is None


def test_the_result_of_a_raw_job_is_its_bytes():
    assert encode_result(Raw(body=b""), b"\x00") == b"\x00"
    assert decode_result(Raw, b"\x00") == b"\x00"
    assert encode_result(Raw(body=b""), None) is None


def test_without_its_class_a_result_is_read_as_json():
    assert decode_result(None, b'{"width":1}') == {"width": 1}
    assert decode_result(None, None) is None
    with pytest.raises(ResultInvalid, match="name the class"):
        decode_result(None, b"\x00")


def test_a_result_that_is_not_there_or_does_not_fit_is_no_result():
    with pytest.raises(ResultInvalid, match="there is no result of this Resize"):
        decode_result(Resize, None)
    with pytest.raises(ResultInvalid, match="does not fit its class"):
        decode_result(Resize, b"3")


@pytest.mark.parametrize(("declared", "why"), [("Nowhere", "not there at run time"), (logging.Logger, "JSON cannot")])
def test_a_type_that_no_json_holds_is_refused_before_a_job_runs(declared, why):
    class Wrong(Job[declared]):
        pass

    with pytest.raises(ConfigError, match=f"Wrong.*{why}"):
        check_result(Wrong)


def test_the_largest_result_is_a_number_of_bytes():
    with pytest.raises(TypeError, match="max_result=0"):

        class Wrong(Job, max_result=0):
            pass
