"""What real workers write as JSON."""

import json
from pathlib import Path

import pytest

from pinlater.model.state import JobState
from tests.system.worker_program import Worker, await_state, info, put, ran

TALKS = """
import logging
from pinlater import Job


class Talks(Job, queue="touch"):
    def run(self, context):
        logging.getLogger("a.library").warning("NUL \\0, lines\\n\\r and %s", "\\udcff")
        logging.getLogger("a.library").warning("x" * 5_000_000)
        context.log.warning("own %s", "words")
        logging.getLogger("a.library").warning("%d", "no number")
"""

PRINTS = """
import os, signal
from pinlater import Job


class Prints(Job, queue="touch"):
    def run(self, context):
        print("the last words")
        if context.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("several", [(), ("--threads", 2)])
def test_every_line_is_an_object_and_those_of_a_job_name_it(start, client, folder, several):
    (folder / "talks.py").write_text(TALKS)
    worker = start("--processes", 1, "--log-format", "json", *several, modules=("talks",))
    descriptor = put(client, "Talks", "touch")
    await_state(client, descriptor, JobState.SUCCEEDED)
    assert worker.stop() == 0
    lines = [json.loads(line) for line in worker.log.splitlines()]
    assert all({"time", "level", "logger", "message", "process"} <= line.keys() for line in lines)
    about = {"descriptor": descriptor, "queue": "touch", "class": "Talks", "attempt": 1, "attempts_allowed": 3}
    told = [line["message"] for line in lines if about.items() <= line.items()]
    assert told[0] == "NUL \0, lines\n\r and \\udcff"
    assert told[1].endswith("… (5000000 characters)")
    assert told[2:] == ["own words", "%d (its arguments do not fit: TypeError)"]
    assert max(map(len, worker.log.splitlines())) < 100_000


@pytest.mark.parametrize("how", [[], ["--threads", 2], ["--log-format", "json"]])
def test_a_full_disk_under_the_log_fails_no_job(client, server, folder, start, how):
    """``/dev/full`` takes nothing, like a disk without room."""
    ways = ["print", "stderr", "log", "warn", "buffer"]
    jobs = [put(client, "Prints", "touch", how=way) for way in ways]
    with Worker(folder, "jobs", "--burst", "--server", server.address, *how, log_file=Path("/dev/full")) as worker:
        assert worker.wait() == 0
    assert [info(client, job).state for job in jobs] == [JobState.SUCCEEDED] * len(ways)
    assert sorted(ran(folder)) == sorted(f"{way} 1" for way in ways)


def test_what_a_job_prints_is_there_though_its_process_is_killed(start, client, folder):
    (folder / "prints.py").write_text(PRINTS)
    worker = start("--processes", 1, modules=("prints",))
    await_state(client, put(client, "Prints", "touch"), JobState.SUCCEEDED)
    worker.await_log("killed by SIGKILL")
    assert worker.log.splitlines().count("the last words") == 2
    assert worker.stop() == 0
