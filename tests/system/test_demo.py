"""The demo itself: it succeeds, and it ends cleanly when it is stopped."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def start(tmp_path):
    started = []

    def start():
        command = [sys.executable, "-u", "-m", "jobs_example.demo", str(tmp_path / "demo")]
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_everything_holds(start):
    demo = start()
    output = demo.stdout.read()
    assert demo.wait(10) == 0, output
    assert "KILLED process" in output
    assert "continues the index" in output
    assert "FAILED" not in output
    assert "Nothing was lost" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_it_leaves_no_process(start, number):
    demo = start()
    for line in demo.stdout:
        if "worker started" in line:
            break
    children = psutil.Process(demo.pid).children(recursive=True)
    assert len(children) >= 2, line
    os.kill(demo.pid, number)
    rest = demo.stdout.read()
    assert demo.wait(60) == 130, rest
    assert re.search("Stopped", rest)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
