"""Large results of steps move out of the body, so that a step costs what it adds."""

import json
import re
from functools import partial

import msgspec
import pytest

from pinlater import Job, StepMismatch
from pinlater.errors import BodyInvalid, CallUnsupported
from pinlater.jobs.body_codec import JobCodec, encode_body, name_in
from pinlater.jobs.outside_steps import MOST_IN_BODY, steps_name
from pinlater.model.body_metadata import BodyMetadata, Recurrence, body_to_undo, read_metadata, replace_metadata
from pinlater.model.body_patterns import class_pattern
from pinlater.model.body_summary import summarize
from pinlater.model.kept_mark import KEPT_MARK
from tests.unit.jobs.workflow_attempts import Keeping, Plain


def load(number, size=100):
    return [number, "x" * size]


def never(*_):
    raise AssertionError("a finished step was run again")


never.__name__ = "load"


def steps(context, numbers, function=load):
    return [context.step("load", function, number) for number in numbers]


@pytest.fixture
def attempts():
    return Keeping()


def test_few_results_stay_in_the_body(attempts):
    steps(attempts.attempt(), range(100))
    attempts.died()
    assert not attempts.messages
    assert (name_in(attempts.body), json.loads(attempts.body)["job"]) == ("Plain", "Plain")
    assert len(json.loads(attempts.body)["$steps"]) == 100


def test_a_step_costs_what_it_adds(attempts):
    expected = steps(attempts.attempt(), range(2000))
    assert max(map(len, attempts.saver.bodies)) < MOST_IN_BODY + 6000
    assert sum(map(len, attempts.saver.bodies[200:])) < 1800 * 5000
    kept = sum(len(message.payload) for message in attempts.messages)
    assert kept < 2000 * 150
    assert len(attempts.messages) < 150
    attempts.died()
    assert len(attempts.body) < 6000
    assert steps(attempts.attempt(2), range(2000), never) == expected


def test_an_attempt_goes_on_wherever_the_last_one_died(attempts):
    steps(attempts.attempt(), range(300))
    for saved, body in list(enumerate(attempts.saver.bodies, 1))[::7]:
        assert steps(attempts.attempt(2, body=body), range(saved), never)[-1] == load(saved - 1)


def test_a_large_result_moves_at_once(attempts):
    steps(attempts.attempt(), range(3), partial(load, size=600_000))
    assert len(attempts.messages) == 3
    assert max(map(len, attempts.saver.bodies)) < 1000
    attempts.died()
    assert [len(text) for _, text in steps(attempts.attempt(2), range(3), never)] == [600_000] * 3


def test_a_worker_that_knows_no_such_results_does_not_know_the_class(attempts):
    steps(attempts.attempt(), range(500))
    attempts.died()
    assert json.loads(attempts.body)["job"] == f"Plain{KEPT_MARK}"
    with pytest.raises(msgspec.ValidationError, match="Invalid value"):
        msgspec.json.decode(attempts.body, type=Plain)
    assert (name_in(attempts.body), summarize(attempts.body).job) == ("Plain", "Plain")
    assert re.search(class_pattern("Plain"), attempts.body.decode())
    assert isinstance(JobCodec([Plain]).decode("plain", attempts.body), Plain)
    with pytest.raises(BodyInvalid, match="no job class is named 'Plain' here"):
        JobCodec([type("Other", (Plain,), {})]).decode("plain", attempts.body)


def test_no_class_can_have_such_a_name():
    with pytest.raises(TypeError, match="cannot end in"):

        class Odd(Job, name=f"odd{KEPT_MARK}"):
            pass


def test_a_field_that_looks_like_the_mark_changes_nothing():
    class Text(Job, queue="texts"):
        text: str

    body = encode_body(Text(text=KEPT_MARK), BodyMetadata(kept=3))
    assert JobCodec([Text]).decode("texts", body) == Text(text=KEPT_MARK)
    plain = encode_body(Text(text=KEPT_MARK), BodyMetadata())
    assert JobCodec([Text]).decode("texts", plain) == Text(text=KEPT_MARK)
    with pytest.raises(BodyInvalid):
        JobCodec([Plain]).decode("texts", plain)


def test_a_changed_step_is_noticed_also_outside(attempts):
    steps(attempts.attempt(), range(500))
    attempts.died()
    with pytest.raises(StepMismatch, match=r"step 'load' is load.1. now.*other arguments.*recorded as 'load#2'"):
        attempts.attempt(2).step("load", never, 1)


def test_a_patch_is_asked_about_after_all_that_is_outside(attempts):
    steps(attempts.attempt(), range(500))
    attempts.died()
    assert attempts.attempt(2).since("new") is False
    context = attempts.attempt(2)
    steps(context, range(500), never)
    assert context.since("new") is True


def test_a_server_that_cannot_keep_them_gets_all_in_the_body(attempts):
    context = attempts.attempt()
    steps(context, range(300))
    attempts.saver.keeps_messages = False
    steps(context, range(300, 600))
    attempts.died()
    assert steps(attempts.attempt(2), range(600), never)[-1] == load(599)
    steps(attempts.context, range(600, 601))
    attempts.died()
    assert steps(attempts.attempt(3), range(601), never)[-1] == load(600)


def test_what_nobody_knows_to_be_stored_stays_in_the_body(attempts):
    context = attempts.attempt()
    attempts.saver.is_stored = lambda _: False
    steps(context, range(300))
    body = context.body.encode()
    assert len(json.loads(body)["$steps"]) == 300
    assert steps(attempts.attempt(2, body=body), range(300), never)[-1] == load(299)


def test_a_copy_without_what_was_outside_runs_no_step(attempts):
    steps(attempts.attempt(), range(500))
    attempts.died()
    attempts.kept.clear()
    with pytest.raises(StepMismatch, match=r"results of \d+ finished steps are kept beside the body, but only 0"):
        attempts.attempt(2).step("load", load, 0)


def test_an_older_server_that_cannot_read_them_costs_no_attempt(attempts):
    steps(attempts.attempt(), range(500))
    attempts.died()

    def read(*_):
        raise CallUnsupported("the server does not know readMessages")

    context = attempts.attempt(2)
    attempts.saver.read_messages = read
    with pytest.raises(StepMismatch, match="this server cannot read them: the server does not know readMessages"):
        context.step("load", never, 0)
    assert steps(attempts.attempt(2), range(500), never)[-1] == load(499)


def test_the_next_run_has_none(attempts):
    context = attempts.attempt()
    steps(context, range(500))
    assert context.body.dropped == (steps_name(0),)
    body = context.body.of_next_run(7)
    assert json.loads(body) == {"job": "Plain", "$again": {"due_ms": 7, "run": 1}}
    assert replace_metadata(context.body.encode(), BodyMetadata(recurrence=Recurrence(7, 1))) == body
    assert steps(attempts.attempt(body=body), range(200))[-1] == load(199)
    assert attempts.context.body.dropped == (steps_name(1),)


def test_a_job_without_any_drops_none(attempts):
    context = attempts.attempt()
    steps(context, range(5))
    assert context.body.dropped == ()


def test_the_mark_stays_when_a_job_is_undone(attempts):
    context = attempts.attempt()
    with context.saga() as saga:
        for number in range(500):
            saga.step("load", load, number, undo=str)
        attempts.died()
    body = body_to_undo(attempts.body, "poison")
    assert json.loads(body)["job"] == f"Plain{KEPT_MARK}"
    assert read_metadata(body).kept == read_metadata(attempts.body).kept > 0
