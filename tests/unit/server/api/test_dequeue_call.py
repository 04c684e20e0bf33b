"""What a dequeue adds to the metrics."""

import asyncio
from unittest.mock import AsyncMock, MagicMock

import pytest

from pinlater.protocol.messages import PinLaterDequeueRequest, RequestContext
from pinlater.server.api.dequeue_call import DequeueCall
from pinlater.server.backends.records import Claim, DequeuedJob
from pinlater.server.broker import Caller
from pinlater.server.broker.dequeue import DequeueResult
from pinlater.server.clock import elapsed_seconds
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics

NOW_MS = 1_000_000


@pytest.mark.parametrize(("since_ms", "delay_ms"), [(NOW_MS - 300, 300), (NOW_MS + 200, 0)])
def test_a_job_of_a_shard_whose_clock_is_ahead_has_not_waited(since_ms, delay_ms):
    """A negative delay would lower the sum, which Prometheus takes for a restart."""
    metrics, broker = Metrics(), MagicMock()
    broker.backend.now_ms = lambda: NOW_MS
    job = DequeuedJob("mail:s1:p1:1", b"{}", 2, 2, created_at_ms=since_ms, run_after_ms=since_ms)
    found = DequeueResult({"mail": [job]}, Claim("host:1:1:w:1", 30_000), elapsed_seconds())
    broker.backend.shards, broker.dequeue = 1, AsyncMock(return_value=found)
    parts = {"load_shedder": MagicMock(), "claims": MagicMock(), "settings": Settings()}
    acks = MagicMock(start=AsyncMock(return_value=None))
    call = DequeueCall(broker, acks, MagicMock(), metrics=metrics, max_bytes=1000, **parts)
    request = PinLaterDequeueRequest("mail", 1)
    context = RequestContext("test", "test")
    asyncio.run(call.answer(MagicMock(request=request, context=context), Caller()))
    for family in (metrics.dequeue_delay_ms, metrics.first_dequeue_delay_ms):
        assert family.snapshot().series["mail"].sum == delay_ms
