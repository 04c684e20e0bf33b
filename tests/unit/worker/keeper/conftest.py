"""Keepers with a client that only takes notes."""

import pytest

from tests.unit.worker.fakes import FakeChild
from tests.unit.worker.keeper.keeper_bench import Bench


@pytest.fixture
def bench():
    child = FakeChild()
    yield Bench(child)
    child.close()


@pytest.fixture
def crowd():
    """The keeper of a process that runs three jobs at once."""
    child = FakeChild()
    yield Bench(child, places=3)
    child.close()
