"""Ack buffers, and their clock."""

import pytest

from pinlater.worker.session import ack_buffer as settler_module
from pinlater.worker.session import late_acks as late_module
from tests.unit.worker.session.ack_bench import Bench


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def clock(monkeypatch):
    """What time it is, in seconds, for acks."""
    clock = [100.0]
    for module in (settler_module, late_module):
        monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    return clock
