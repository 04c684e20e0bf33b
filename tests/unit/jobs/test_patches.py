"""Patch marks: which runs follow a change of a workflow, and that they stay with it."""

import pytest

from pinlater import Constant, Job, JobSleeps, retrying
from pinlater.errors import BodyInvalid, JobInterrupted
from pinlater.jobs.job import RawJob
from pinlater.testing import FakeContext, killed_everywhere, run_inline


class Cut(Exception):
    pass


def cut():
    raise Cut


def order():
    return "an order"


def charge(order):
    return "charged"


def charge_with_vat(order):
    return "charged with vat"


def pay(context):
    """The new code."""
    order_of = context.step("order", order)
    if context.since("vat-2027"):
        return context.step("charge with vat", charge_with_vat, order_of)
    return context.step("charge", charge, order_of)


def test_a_run_that_begins_with_the_new_code_follows_it(attempts):
    assert pay(attempts.attempt()) == "charged with vat"
    attempts.died()
    assert pay(attempts.attempt(2)) == "charged with vat"


def test_a_run_that_had_not_come_to_the_place_follows_it(attempts):
    attempts.attempt().step("order", order)
    attempts.died()
    assert pay(attempts.attempt(2)) == "charged with vat"


def test_a_run_that_had_come_past_the_place_does_not(attempts):
    context = attempts.attempt()
    context.step("charge", charge, context.step("order", order))
    attempts.died()
    for number in (2, 3):
        assert pay(attempts.attempt(number)) == "charged"
        attempts.died()


def old_sleep(context):
    with pytest.raises(JobSleeps):
        context.sleep_for(60, name="a while")


def old_failure(context):
    with pytest.raises(JobSleeps):
        context.step("charge", retrying(cut, attempts=2, backoff=Constant(60)))


def old_second_use(context):
    context.step("order", order)


@pytest.mark.parametrize("past", [old_sleep, old_failure, old_second_use])
def test_what_tells_that_a_run_had_come_past(attempts, past):
    context = attempts.attempt()
    context.step("order", order)
    past(context)
    attempts.slept()
    later = attempts.attempt(2)
    later.step("order", order)
    assert not later.since("x")


class Asks(Job, attempts=1):
    def run(self, context):
        if is_new:
            results.append(context.since("x"))
        results.append(context.wait_for("answer", str))
        results.append(context.wait_for("answer", str))


is_new = False


def test_an_event_tells_it_too(monkeypatch):
    results.clear()
    with run_inline(Asks) as client:
        handle = client.enqueue(Asks())
        handle.send("answer", "yes")
        monkeypatch.setattr("tests.unit.jobs.test_patches.is_new", True)
        handle.send("answer", "no")
        client.assert_succeeded()
    assert results == ["yes", False, "yes", "no"]


def test_a_follow_up_tells_it_too():
    context = FakeContext(Paid())
    context.enqueue(Paid(), name="then")
    assert not FakeContext(Paid(), previous=context).since("x")


def test_the_answer_stays_when_the_rest_is_recorded_and_at_each_use(attempts):
    context = attempts.attempt()
    assert context.since("x")
    context.step("order", order)
    assert context.since("x")
    attempts.died()
    assert attempts.attempt(2).since("x")


def test_a_removed_step_does_not_make_an_old_run_of_a_new_one(attempts):
    context = attempts.attempt()
    context.step("removed", order)
    context.step("order", order)
    attempts.died()
    later = attempts.attempt(2)
    later.step("order", order)
    assert later.since("x"), "what was finished before the last step that both have says nothing"


def test_a_test_can_say_what_a_run_follows():
    assert pay(FakeContext(Paid(), patches={"vat-2027": False})) == "charged"
    context = FakeContext(Paid())
    pay(context)
    assert context.patches == {"vat-2027": True}


class Paid(Job, attempts=2):
    def run(self, context):
        results.append(pay(context))


class Raw(RawJob, queue="raw"):
    def run(self, context):
        pass


results = []


def test_wherever_it_is_killed_it_follows_one_code():
    for client in killed_everywhere(Paid):
        results.clear()
        client.enqueue(Paid())
        client.assert_succeeded()
        assert set(results) == {"charged with vat"}, client.killed_at


def test_a_raw_job_and_an_interrupted_one_are_told():
    with pytest.raises(BodyInvalid, match="no place for patches"):
        FakeContext(Raw(body=b"")).since("x")
    context = FakeContext(Paid(), draining_after=1)
    with pytest.raises(JobInterrupted):
        context.checkpoint()
    with pytest.raises(JobInterrupted):
        context.since("x")
