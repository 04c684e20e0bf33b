"""A real ``pinlater-worker`` for tests: its own folder with job modules, and ways to watch it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from pinlater.client import NewJob
from tests.support.server import children_of, environment, wait_for

_MODULES = Path(__file__).with_name("jobs")


def add_jobs(folder, name):
    """Put a module of ``tests/system/jobs`` into the folder of a worker."""
    for module in ("trail.py", f"{name}.py"):
        shutil.copy(_MODULES / module, folder)


def job_module(text):
    """Return a module of jobs that can ``write`` a line, which ``ran`` reads."""
    return (_MODULES / "trail.py").read_text() + text


def environment_with(folder, code):
    """Return the environment for programs that execute this code before all others."""
    patches = folder / "patches"
    patches.mkdir()
    (patches / "sitecustomize.py").write_text(code)
    found = environment()
    return found | {"PYTHONPATH": os.pathsep.join([str(patches), found["PYTHONPATH"]])}


class Worker:
    """One worker program, started with ``arguments`` in ``folder``."""

    def __init__(self, folder, *arguments, log_file=None, env=None):
        self.folder = folder
        self.log_file = log_file or folder / f"worker-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "pinlater.worker.program", *map(str, arguments)]
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env or environment()
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def log(self):
        return self.log_file.read_text(errors="replace")

    def wait(self, seconds=60):
        return self.process.wait(seconds)

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        self.send(number)
        return self.wait()

    def await_log(self, text, seconds=60):
        wait_for(lambda: text in self.log, seconds, lambda: self.log)

    def children(self, title):
        """Return the living processes whose title has ``title``."""
        return [child for child in children_of(self.process.pid) if title in _title(child)]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()  # its processes end with it
            self.process.wait(10)


def _title(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def put(client, kind, queue, **fields):
    body = json.dumps({"job": kind, **fields}).encode()
    return client.enqueue_jobs(queue, [NewJob(body, attempts=3)])[0]


def info(client, descriptor):
    return client.lookup([descriptor], include_body=True)[descriptor]


def await_state(client, descriptor, state, seconds=60):
    wait_for(lambda: info(client, descriptor).state is state, seconds, lambda: info(client, descriptor))
    return info(client, descriptor)


def ran(folder):
    file = folder / "ran.txt"
    return file.read_text().splitlines() if file.exists() else []
