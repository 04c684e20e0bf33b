"""What calls about results and parents may say."""

import asyncio
from unittest.mock import AsyncMock, MagicMock

import pytest

from pinlater.errors import EnqueueRejected, UnknownError
from pinlater.model.messages import Parent
from pinlater.protocol import messages as wire
from pinlater.server.api import ack_rules, rules
from pinlater.server.api.checkpoint_rules import checkpoints
from pinlater.server.api.manual_changes import ManualChanges

PARENT = "q:s1:p1:1"
RULES = rules.JobRules(3, 100)


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


LATEST_MS = 2**52 - 1
TIMES = [(-(2**63), 0), (-1, 0), (0, 0), (LATEST_MS, LATEST_MS), (2**52, LATEST_MS), (2**63 - 1, LATEST_MS)]
"""Times that a call may name, and when the job is due then."""


@pytest.mark.parametrize("key", [None, "a"])
@pytest.mark.parametrize(("time_ms", "due_ms"), [*TIMES, (None, None)])
def test_a_new_job_is_due_at_a_time_that_stores_can_tell_from_waiting(time_ms, due_ms, key):
    [job] = new_jobs(key=key, runAfterTimestampMillis=time_ms)
    assert job.run_after_ms == due_ms


@pytest.mark.parametrize(("time_ms", "due_ms"), TIMES)
def test_so_is_one_that_is_imported_retried_or_given_back(time_ms, due_ms):
    info = wire.PinLaterJobInfo(PARENT, 0, body=b"body", runAfterTimestampMillis=time_ms)
    [job] = RULES.imported_jobs([info])
    assert job.run_after_ms == due_ms
    broker = MagicMock()
    broker.retry_failed = AsyncMock()
    request = wire.PinLaterRetryFailedJobsRequest("q", runAfterTimestampMillis=time_ms)
    asyncio.run(ManualChanges(broker, 3).retry_failed(MagicMock(request=request), None))
    broker.retry_failed.assert_awaited_once_with("q", 1, 1, due_ms, 1000, once=None)
    struct = wire.PinLaterCheckpointJobRequest(PARENT, moveToPending=True, runAfterTimestampMillis=time_ms)
    [checkpoint] = checkpoints([struct], "me", 100)
    assert checkpoint.run_after_ms == due_ms


@pytest.mark.parametrize(("delay_ms", "kept_ms"), [(1000, 1000), (2**51, 2**51), (2**63 - 1, 2**51)])
def test_a_retry_is_due_then_too(delay_ms, kept_ms):
    failed = wire.PinLaterJobAckInfo(PARENT, retryDelayMillis=delay_ms)
    [ack] = ack_rules.read_acks(wire.PinLaterJobAckRequest("q", [], [failed]), 100).failed
    assert ack.retry_delay_ms == kept_ms


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
