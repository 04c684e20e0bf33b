"""What calls about results and parents may say."""

import pytest

from pinlater.errors import EnqueueRejected, UnknownError
from pinlater.model.messages import Parent
from pinlater.protocol import messages as wire
from pinlater.server.api import ack_rules, rules

PARENT = "q:s1:p1:1"


def new_jobs(**fields):
    job = wire.PinLaterJob(b"body", **fields)
    return rules.new_jobs([job], 3, 100)


def test_a_job_may_name_its_parent():
    [job] = new_jobs(parentDescriptor=PARENT, parentMessageName="resize", parentPosition=7)
    assert job.parent == Parent(PARENT, "resize", 7)
    [job] = new_jobs(parentDescriptor=PARENT, parentMessageName="resize")
    assert job.parent == Parent(PARENT, "resize", 0)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"parentMessageName": ""}, "0 characters"),
        ({"parentMessageName": "x" * 201}, "201 characters"),
        ({"parentMessageName": "a\0b"}, "NUL"),
        ({"parentMessageName": "resize", "parentPosition": -1}, "count from 0"),
        ({"parentMessageName": "resize", "uniqueKey": "key"}, "unique key"),
    ],
)
def test_a_parent_that_no_store_could_tell_is_refused(fields, why):
    with pytest.raises(EnqueueRejected, match=why):
        new_jobs(parentDescriptor=PARENT, **fields)


def test_a_parent_must_be_a_descriptor():
    with pytest.raises(UnknownError, match="nonsense"):
        new_jobs(parentDescriptor="nonsense", parentMessageName="resize")


def read_acks(*infos):
    return ack_rules.read_acks(wire.PinLaterJobAckRequest("q", list(infos)), 100)


def test_a_result_that_is_too_large_leaves_the_other_acks_alone():
    acks = read_acks(
        wire.PinLaterJobAckInfo(PARENT, result=b"x" * 101), wire.PinLaterJobAckInfo("q:s1:p1:2", result=b"x" * 100)
    )
    assert [ack.result for ack in acks.succeeded] == [b"x" * 100]
    [fault] = acks.faults
    assert isinstance(fault, EnqueueRejected)
    assert "the result of q:s1:p1:1 has 101 bytes" in str(fault)


def test_a_cancelled_job_is_given_up():
    request = wire.PinLaterJobAckRequest("q", None, [wire.PinLaterJobAckInfo(PARENT, isCancelled=True)])
    [ack] = ack_rules.read_acks(request, 100).failed
    assert (ack.is_final, ack.is_cancelled) == (True, True)
