"""Events: the messages that carry them, and what is said of jobs that wait for them."""

import math

import pytest

from pinlater.errors import BodyInvalid
from pinlater.jobs.events import event_in, event_message, event_name
from pinlater.jobs.waiting import JobWaits, waits_text
from pinlater.model.messages import MessageKind, MessageWait


def test_an_event_is_a_message_with_its_value_as_json():
    message = event_message("approval", {"by": "ada"}, "42")
    assert message == (event_name("approval"), "42", b'{"by":"ada"}', MessageKind.EVENT)
    assert event_in(message.name) == "approval"


def test_two_events_without_an_id_differ():
    assert event_message("approval", None).id != event_message("approval", None).id


def test_a_message_of_a_call_is_no_event():
    assert event_in("call/0/resize") is None


@pytest.mark.parametrize("value", [object(), math.nan, [math.inf]])
def test_a_value_that_json_cannot_carry_is_refused(value):
    with pytest.raises(BodyInvalid, match="event 'approval'"):
        event_message("approval", value)


def test_what_a_job_waits_for_is_said_in_words():
    waits = [MessageWait("event/approval", 2), MessageWait("call/0/resize", 12000), MessageWait("call/0/mail", 1)]
    assert waits_text(waits) == "event approval, 12,000 jobs of call resize, the job of call mail"


def test_a_job_that_begins_to_wait_says_for_what_in_the_same_words():
    waits = [MessageWait(event_name("approval"), 1), MessageWait("call/0/resize", 12_000)]
    assert str(JobWaits(waits)) == "waits for event approval or 12,000 jobs of call resize"
