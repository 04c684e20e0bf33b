import pytest

from tests.unit.worker.fakes import FakeChild


@pytest.fixture
def child():
    child = FakeChild()
    yield child
    child.close()
