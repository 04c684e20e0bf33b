"""Calls about messages and cancellation."""

import asyncio
from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock

import pytest

from pinlater.errors import EnqueueRejected, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.protocol import messages as wire
from pinlater.server.api.job_messages import MAX_READ_MESSAGES, JobMessages
from pinlater.server.backends.records import Cancelled
from pinlater.server.broker import Caller
from pinlater.server.broker.cancellations import Cancellations
from pinlater.server.config.settings import Settings

JOB = "q:s1:p1:1"


class Family:
    """A store of jobs with their parents: some run, some wait, some have finished."""

    def __init__(self, parents, running=(), finished=()):
        self.parents = parents
        self.left = {**dict.fromkeys(parents, "PENDING"), **dict.fromkeys(running, "IN_PROGRESS")}
        self.left.update(dict.fromkeys(finished, "SUCCEEDED"))
        self.asked = []
        self.cancelled_with_children = set()
        self.statuses = {}

    async def cancel(self, queue, jobs, status):
        names = list(map(str, jobs))
        assert {job.queue for job in jobs} == {queue}
        self.statuses.update(dict.fromkeys(names, status))
        ended = [name for name in names if self.left[name] == "PENDING"]
        asked = [name for name in names if self.left[name] == "IN_PROGRESS"]
        self.left.update(dict.fromkeys(ended, "FAILED"))
        self.asked += asked
        with_children = [name for name in (*ended, *asked) if name in self.parents.values()]
        self.cancelled_with_children.update(with_children)
        ended, asked, with_children = (tuple(map(JobDescriptor.parse, some)) for some in (ended, asked, with_children))
        return Cancelled(ended, asked, parents=with_children, newly_ended=len(ended))

    async def finish_cancellation(self, queue, jobs):
        assert {job.queue for job in jobs} == {queue}
        self.cancelled_with_children -= set(map(str, jobs))

    async def children_to_cancel(self, parents, limit):
        wanted = set(map(str, parents))
        found = [name for name, parent in self.parents.items() if parent in wanted and self._is_due(name)]
        return list(map(JobDescriptor.parse, found[:limit]))

    def _is_due(self, name):
        is_open = self.left[name] in {"PENDING", "IN_PROGRESS"} and name not in self.asked
        return is_open or name in self.cancelled_with_children


def messages(backend, cancel=None):
    broker = SimpleNamespace(backend=backend, cancel=cancel, cancellations=Cancellations(lambda: 5000))
    return JobMessages(broker, Settings(), MagicMock(), 1 << 20), broker


def call(handler, request):
    return asyncio.run(handler(SimpleNamespace(request=request), Caller()))


def cancelled(family, queue, names, status=None):
    handler, _ = messages(family, family.cancel)
    return call(handler.cancel, wire.PinLaterCancelJobsRequest(queue, names, status))


def test_children_are_cancelled_with_their_parents_in_whatever_queue(monkeypatch):
    monkeypatch.setattr("pinlater.server.api.job_messages._CHILDREN_AT_ONCE", 2)
    children = {f"r:s1:p1:{number}": JOB for number in range(5)} | {"z:s1:p1:9": "r:s1:p1:4", "z:s1:p1:8": None}
    family = Family({JOB: None, **children}, running=["r:s1:p1:1"], finished=["r:s1:p1:0"])
    assert cancelled(family, "q", [JOB], "by ada") == 6
    assert family.asked == ["r:s1:p1:1"]
    assert [name for name, state in family.left.items() if state == "PENDING"] == ["z:s1:p1:8"]
    assert family.statuses[JOB] == "by ada"
    assert family.statuses["z:s1:p1:9"] == "cancelled with its parent\n"


def test_a_long_line_of_descendants_is_cancelled():
    names = [f"q:s1:p1:{number}" for number in range(2000)]
    family = Family(dict(zip(names, [None, *names], strict=False)))
    assert cancelled(family, "q", names[:1]) == len(names)
    assert family.cancelled_with_children == set()


def test_the_metric_counts_a_job_once_however_often_it_is_cancelled():
    ended = (JobDescriptor.parse(JOB),)
    cancel = AsyncMock(side_effect=[Cancelled(ended, (), newly_ended=1), Cancelled(ended, ())])
    handler, _ = messages(MagicMock(), cancel)
    assert [call(handler.cancel, wire.PinLaterCancelJobsRequest("q", [JOB])) for _ in range(2)] == [1, 1]
    handler._metrics.jobs_cancelled.add.assert_called_once_with("q", 1)


def test_jobs_that_have_finished_are_not_counted():
    assert cancelled(Family({JOB: None}, finished=[JOB]), "q", [JOB]) == 0


def test_a_job_of_another_queue_is_refused_before_any_is_cancelled():
    family = Family({JOB: None})
    with pytest.raises(UnknownError, match="does not belong"):
        cancelled(family, "q", [JOB, "r:s1:p1:1"])
    assert family.left[JOB] == "PENDING"


def test_a_message_is_stored_for_its_job():
    backend = MagicMock(send_message=AsyncMock(return_value=True))
    handler, _ = messages(backend)
    assert call(handler.send, wire.PinLaterSendMessageRequest(JOB, "approval", "id", b"\xff")) is True
    backend.send_message.assert_awaited_once_with(JobDescriptor.parse(JOB), Message("approval", "id", b"\xff"))


@pytest.mark.parametrize(
    ("name", "number", "size", "why"),
    [
        ("", "id", 1, "name"),
        ("x" * 201, "id", 1, "201"),
        ("a", "", 1, "id"),
        ("a", "b\0", 1, "NUL"),
        ("a", "b", 2_000_000, "bytes"),
    ],
)
def test_a_message_that_no_store_takes_is_refused(name, number, size, why):
    handler, _ = messages(MagicMock())
    with pytest.raises(EnqueueRejected, match=why):
        call(handler.send, wire.PinLaterSendMessageRequest(JOB, name, number, b"x" * size))


def test_messages_are_read_from_a_number_on():
    backend = MagicMock(read_messages=AsyncMock(return_value=[ReceivedMessage(4, "id", b"x", 0)]))
    handler, _ = messages(backend)
    [found] = call(handler.read, wire.PinLaterReadMessagesRequest(JOB, "approval", 3, 10**9))
    assert (found.number, found.id, found.kind, found.payload) == (4, "id", 0, b"x")
    assert backend.read_messages.await_args.args[:4] == (JobDescriptor.parse(JOB), "approval", 3, MAX_READ_MESSAGES)
    with pytest.raises(UnknownError, match="negative"):
        call(handler.read, wire.PinLaterReadMessagesRequest(JOB, "approval", 3, -1))


def test_who_asks_is_told_which_jobs_are_to_stop():
    handler, broker = messages(MagicMock())
    broker.cancellations.record([JOB])
    reply = call(handler.cancelled, wire.PinLaterCancelledJobsRequest(0, 60_000))
    assert reply.jobDescriptors == [JOB]
    later = wire.PinLaterCancelledJobsRequest(reply.serverTimestampMillis)
    assert call(handler.cancelled, later).jobDescriptors == []
