"""A step remembers which call it was: changed code gets an error instead of another step's result."""

import asyncio
import threading
from dataclasses import dataclass
from functools import partial

import pytest

from pinlater import Job, retrying
from pinlater.errors import StepMismatch
from pinlater.jobs.fingerprints import Fingerprints, fingerprint
from pinlater.jobs.outside_steps import StepResults
from pinlater.model.body_metadata import BodyMetadata
from pinlater.testing import run_inline
from tests.unit.jobs.workflow_attempts import Plain


def resize(photo, size=1):
    return f"{photo} {size}"


def upload(photo):
    return f"uploaded {photo}"


async def fetch(photo):
    return f"fetched {photo}"


def test_another_argument_is_another_call(attempts):
    context = attempts.attempt()
    for photo in ("cat", "dog", "cow"):
        context.step("resize", resize, photo, size=2)
    attempts.died()
    later = attempts.attempt(2)
    later.step("resize", resize, "cat", size=2)
    message = (
        "step 'resize#2' is resize\\('cow', size=2\\) now, but the recorded one is a call of resize with other "
        "arguments; this call was recorded as 'resize#3'; its saved result is 'dog 2'. .*another name.*context.since"
    )
    with pytest.raises(StepMismatch, match=message):
        later.step("resize", resize, "cow", size=2)


def test_another_function_is_another_call(attempts):
    attempts.attempt().step("a", resize, "cat")
    attempts.died()
    with pytest.raises(StepMismatch, match=r"'a' is upload\('cat'\) now, but the recorded one is a call of resize;"):
        attempts.attempt(2).step("a", upload, "cat")


def test_of_a_second_function_under_a_name_the_name_is_not_known(attempts):
    context = attempts.attempt()
    context.step("a", resize, "cat")
    context.step("a", upload, "cat")
    attempts.died()
    later = attempts.attempt(2)
    later.step("a", resize, "cat")
    with pytest.raises(StepMismatch, match="a call of another function; this call was recorded as 'a'"):
        later.step("a", resize, "cat")


def test_awaited_steps_remember_too(attempts):
    asyncio.run(attempts.attempt().step("a", fetch, "cat"))
    attempts.died()
    with pytest.raises(StepMismatch):
        asyncio.run(attempts.attempt(2).step("a", fetch, "dog"))


def test_the_code_that_fits_again_goes_on(attempts):
    attempts.attempt().step("a", resize, "cat")
    attempts.died()
    with pytest.raises(StepMismatch):
        attempts.attempt(2).step("a", resize, "dog")
    assert attempts.attempt(3).step("a", resize, "cat") == "cat 1"


def test_records_without_fingerprints_are_accepted(attempts):
    attempts.record({"a": 1, "a#2": 2})
    context = attempts.attempt(2)
    assert [context.step("a", upload, photo) for photo in ("cat", "dog", "cow")] == [1, 2, "uploaded cow"]
    attempts.died()
    later = attempts.attempt(3)
    assert [later.step("a", resize, photo) for photo in ("x", "y")] == [1, 2]
    with pytest.raises(StepMismatch):
        later.step("a", upload, "dog")


@dataclass
class Photo:
    name: str


class Handle:
    """Of no form in JSON."""


def same(first, second):
    return first == second


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((resize, ({"b": 1, "a": {3, 1, 2}},)), (resize, ({"a": {2, 3, 1}, "b": 1},))),
        ((resize, (Photo("cat"),)), (resize, (Photo("cat"),))),
        ((resize, (Handle(),)), (resize, (Handle(),))),
        ((resize, ([Handle(), 1],)), (resize, ([Handle(), 1],))),
        ((resize, (threading.Lock(), resize)), (resize, (threading.Lock(), upload))),
        ((resize, (Plain(),)), (resize, (Job,))),
        ((resize, ({Handle(): 1},)), (resize, ({Handle(): 2},))),
        ((partial(resize, "cat"), ()), (partial(resize, "dog"), ())),
        ((retrying(resize, attempts=2), ("cat",)), (resize, ("cat",))),
        ((Handle().__init__, ()), (Handle().__init__, ())),
    ],
)
def test_what_has_no_stable_form_is_left_out(first, second):
    assert fingerprint(*first, {}) == fingerprint(*second, {})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((resize, ("cat",), {}), (resize, (), {"photo": "cat"})),
        ((resize, (1,), {}), (resize, ("1",), {})),
        ((resize, (Photo("cat"),), {}), (resize, (Photo("dog"),), {})),
        ((resize, (Handle(), 1), {}), (resize, (Handle(), 2), {})),
        ((resize, ({1: "a"},), {}), (resize, ({2: "a"},), {})),
        ((resize, (), {}), (resize, (None,), {})),
    ],
)
def test_other_arguments_have_other_fingerprints(first, second):
    assert fingerprint(*first) != fingerprint(*second)


def test_an_argument_that_contains_itself_is_left_out():
    circle = []
    circle.append(circle)
    assert fingerprint(resize, (circle, 1), {}) != fingerprint(resize, (circle, 2), {})


def test_the_arguments_count_as_they_were_before_the_call(attempts):
    def take_first(photos):
        return photos.pop(0)

    for number in (1, 2):
        assert attempts.attempt(number).step("a", take_first, ["cat", "dog"]) == "cat"
        attempts.died()


def test_a_step_costs_six_bytes():
    texts = {}
    prints = Fingerprints(texts, {}, StepResults())
    for number in range(100):
        key = f"resize#{number + 1}" if number else "resize"
        prints.record(key, resize, fingerprint(resize, (number,), {}))
    assert len(texts["resize"]) == len("resize/") + 600


def test_uses_may_finish_in_any_order():
    prints = Fingerprints({}, {}, StepResults())
    for key in ("a#3", "a"):
        prints.record(key, resize, fingerprint(resize, (key,), {}))
    assert prints.recorded("a#2") == ""
    for key in ("a#3", "a"):
        assert prints.recorded(key) == fingerprint(resize, (key,), {})


class Unsteady(Job, attempts=2):
    def run(self, context):
        context.step("a", resize, context.attempt)
        if context.attempt == 1:
            raise OSError("not yet")


def test_inline_the_attempt_fails_at_once():
    with run_inline(Unsteady) as client:
        client.enqueue(Unsteady())
    assert [type(outcome.error) for outcome in client.outcomes] == [OSError, StepMismatch]


def test_a_run_that_begins_anew_has_no_fingerprints():
    assert BodyMetadata(fingerprints={"a": "f/Ab3xQ9"}).for_next_run(5).fingerprints == {}
