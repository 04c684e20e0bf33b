"""Functions of a project at the start and end of a process, whatever they raise."""

import sys

import pytest

from pinlater.client.servers import ServerSet
from pinlater.worker.hooks import Hooks
from pinlater.worker.options import WorkerOptions

called = []


def note():
    called.append("note")


def leave():
    sys.exit(0)


@pytest.fixture
def hooks():
    called.clear()
    names = [f"{__name__}:{hook.__name__}" for hook in (leave, note)]
    return Hooks(WorkerOptions(modules=["jobs"], servers=ServerSet.parse("unix:/none"), on_start=names, on_stop=names))


def test_a_start_that_exits_has_failed(hooks, caplog):
    assert not hooks.start()
    assert called == []
    assert "leave failed: SystemExit: 0" in caplog.text


def test_an_end_that_exits_leaves_the_others_to_be_called(hooks):
    hooks.stop()
    assert called == ["note"]
