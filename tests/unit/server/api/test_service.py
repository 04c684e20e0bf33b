"""The service and the table of operations."""

import asyncio
from unittest.mock import MagicMock

import pytest

from pinlater.protocol.codec import UNKNOWN_METHOD
from pinlater.protocol.operations import OPERATIONS
from pinlater.server.api.calls import CallRefused
from pinlater.server.api.service import Service
from pinlater.server.config.settings import Settings


@pytest.fixture
def service():
    parts = {name: MagicMock() for name in ("load_shedder", "claims", "metrics", "now_ms", "statistics")}
    return Service(MagicMock(), MagicMock(), MagicMock(), settings=Settings(), **parts)


def test_it_carries_out_each_operation(service):
    assert service.methods == OPERATIONS.keys()


def test_a_method_that_is_no_operation_is_refused(service):
    with pytest.raises(CallRefused) as refused:
        asyncio.run(service.call("stealJobs", None, MagicMock()))
    assert refused.value.kind == UNKNOWN_METHOD
