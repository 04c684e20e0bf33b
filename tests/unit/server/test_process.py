import os
import socket
import threading
from contextlib import suppress

import pytest

from pinlater.server import child_loop, process
from pinlater.server.components import ProcessConfig, background_tasks
from pinlater.server.config.settings import Settings
from tests.support.waiting import until


class Child:
    """A process that nobody supervises."""

    def __init__(self):
        self.wakeup_fd, self._writer = os.pipe()
        self.is_ready = threading.Event()
        self.beats = 0

    def ready(self):
        self.is_ready.set()

    def beat(self):
        self.beats += 1

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


def test_it_sends_heartbeats_until_it_has_answered_the_last_call(child, config, monkeypatch):
    answer_all = process._drain

    async def drain(*what):
        before = child.beats
        with suppress(TimeoutError):
            await until(lambda: child.beats >= before + 3)
        beats.append(child.beats - before)
        await answer_all(*what)

    beats = []
    monkeypatch.setattr(child_loop, "_BEAT_SECONDS", 0.001)
    monkeypatch.setattr(process, "_drain", drain)
    child.stop()
    assert process.run(child, config) == 0
    assert beats[0] >= 3


def test_a_background_task_that_fails_ends_the_process(child, config, monkeypatch):
    async def fail():
        raise ZeroDivisionError("the monitor is broken")

    monkeypatch.setattr(process, "background_tasks", lambda *of: [*background_tasks(*of), fail()])
    with pytest.raises(BaseExceptionGroup) as caught:
        process.run(child, config)
    assert caught.group_contains(ZeroDivisionError, match="the monitor is broken")
