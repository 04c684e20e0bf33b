"""What calls about results and parents may say."""

import asyncio
from unittest.mock import AsyncMock, MagicMock

import pytest

from pinlater.errors import EnqueueRejected, UnknownError
from pinlater.model.messages import Parent
from pinlater.protocol import messages as wire
from pinlater.server.api import ack_rules, rules
from pinlater.server.api.manual_changes import ManualChanges

PARENT = "q:s1:p1:1"
RULES = rules.JobRules(3, 100, has_keys=True)


def new_jobs(**fields):
    job = wire.PinLaterJob(b"body", **fields)
    return RULES.new_jobs([job])


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


@pytest.mark.parametrize(("time_ms", "due_ms"), [(None, None), (-1, 0), (-(2**63), 0), (5, 5)])
def test_a_job_with_a_key_is_due_at_a_time_that_stores_can_tell_from_waiting(time_ms, due_ms):
    [job] = new_jobs(key="a", runAfterTimestampMillis=time_ms)
    assert job.run_after_ms == due_ms
    [job] = new_jobs(runAfterTimestampMillis=time_ms)
    assert job.run_after_ms == time_ms


def test_so_are_imported_and_retried_ones():
    info = wire.PinLaterJobInfo(PARENT, 0, body=b"body", key="a", runAfterTimestampMillis=-1)
    [job] = RULES.imported_jobs([info])
    assert job.run_after_ms == 0
    broker = MagicMock()
    broker.retry_failed = AsyncMock()
    request = wire.PinLaterRetryFailedJobsRequest("q", runAfterTimestampMillis=-1)
    asyncio.run(ManualChanges(broker, 3).retry_failed(MagicMock(request=request), None))
    broker.retry_failed.assert_awaited_once_with("q", 1, 1, 0, 1000, once=None)


def test_a_rate_of_a_key_is_one():
    [job] = new_jobs(key="a", rateOfKey="10/s")
    assert job.key is not None
    assert job.key.rate == "10/s"
    for text in ("10", "", "0/s", "10/s and more"):
        with pytest.raises(EnqueueRejected, match=r"of the key of .* is no rate; write 10/s"):
            new_jobs(key="a", rateOfKey=text)


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
