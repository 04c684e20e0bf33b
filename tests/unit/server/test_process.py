import os
import socket
import threading

import pytest

from pinlater.server import process
from pinlater.server.components import ProcessConfig, background_tasks
from pinlater.server.config.settings import Settings


class Child:
    """A process that nobody supervises."""

    def __init__(self):
        self.wakeup_fd, self._writer = os.pipe()
        self.is_ready = threading.Event()

    def ready(self):
        self.is_ready.set()

    def beat(self):
        pass

    def stop(self):
        os.write(self._writer, b"\0")


@pytest.fixture
def child():
    child = Child()
    yield child
    os.close(child.wakeup_fd)
    os.close(child._writer)


@pytest.fixture
def config(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield ProcessConfig(Settings(data_dir=tmp_path / "data"), [listener], None, tmp_path, 0)


def test_it_serves_until_it_is_stopped(child, config):
    def stop_when_ready():
        assert child.is_ready.wait(20)
        child.stop()

    stopper = threading.Thread(target=stop_when_ready)
    stopper.start()
    assert process.run(child, config) == 0
    stopper.join()


def test_a_background_task_that_fails_ends_the_process(child, config, monkeypatch):
    async def fail():
        raise ZeroDivisionError("the monitor is broken")

    monkeypatch.setattr(process, "background_tasks", lambda *of: [*background_tasks(*of), fail()])
    with pytest.raises(BaseExceptionGroup) as caught:
        process.run(child, config)
    assert caught.group_contains(ZeroDivisionError, match="the monitor is broken")
