"""The service and the table of operations."""

import asyncio
from unittest.mock import AsyncMock, MagicMock

import pytest

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import UNKNOWN_METHOD
from pinlater.protocol.operations import OPERATIONS
from pinlater.server.api import service as service_module
from pinlater.server.api.calls import CallRefused
from pinlater.server.api.service import Service
from pinlater.server.broker import Caller
from pinlater.server.config.settings import Settings


@pytest.fixture
def service():
    parts = {name: MagicMock() for name in ("load_shedder", "claims", "metrics", "statistics")}
    return Service(MagicMock(), MagicMock(), settings=Settings(), **parts)


def test_it_carries_out_each_operation(service):
    assert service.methods == OPERATIONS.keys()


def test_a_method_that_is_no_operation_is_refused(service):
    with pytest.raises(CallRefused) as refused:
        asyncio.run(service.call("stealJobs", None, MagicMock()))
    assert refused.value.kind == UNKNOWN_METHOD


def test_a_call_takes_the_time_of_its_answer_without_that_for_which_it_waited(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(service_module, "time", MagicMock(perf_counter=lambda: now[0]))

    async def wait(*_):
        now[0] += 20.5
        caller.slept_seconds += 20.0
        return [], 0

    caller, metrics, broker = Caller(), MagicMock(), MagicMock()
    caller.slept_seconds = 60.0  # in the calls before
    broker.cancellations.wait = AsyncMock(side_effect=wait)
    parts = {name: MagicMock() for name in ("load_shedder", "claims", "statistics")}
    service = Service(broker, MagicMock(), settings=Settings(), metrics=metrics, **parts)
    request = wire.PinLaterCancelledJobsRequest(sinceTimestampMillis=0, waitMillis=20_000)
    context = wire.RequestContext("test", "test")
    asyncio.run(service.call("getCancelledJobs", MagicMock(context=context, request=request), caller))
    metrics.call_seconds.observe.assert_called_once_with("getCancelledJobs", 0.5)
