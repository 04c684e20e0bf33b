"""What a command has done is said although its output cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.answers import enqueued


def run_into_full_disk(*words, data=b""):
    """Run the tool with a stdout that takes nothing, like a disk without room; return what it prints on stderr."""
    command = [sys.executable, "-m", "pinlater.cli", *words]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, input=data, stdout=full, stderr=subprocess.PIPE, env=buffered, check=False)
    assert done.returncode == 1
    return done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["email", "body"], "email:s1:p1:1 was stored before"),
        (["email", "--json-lines", "-"], "2 jobs were stored before"),
    ],
)
def test_enqueue_says_what_is_stored(server, words, said):
    server.answer = enqueued
    lines = b'{"job": "A"}\n{"job": "B"}\n'
    assert run_into_full_disk("enqueue", *words, data=lines).endswith(f"No space left on device; {said}\n")


def test_a_bulk_action_says_how_many_jobs_are_affected(server):
    server.answer = lambda call: 0 if call.arguments.request.priority > 1 else 3
    words = ["retry-failed", "email", "--priority", "1", "--limit", "3"]
    assert run_into_full_disk(*words).endswith("; 3 jobs were retried before\n")
    assert "before" not in run_into_full_disk(*words, "--dry-run")


def test_a_change_of_jobs_by_descriptor_says_which_were_changed(server):
    server.answer = lambda _: 1
    assert run_into_full_disk("run-now", "email:s1:p1:1").endswith("; email:s1:p1:1 was made due before\n")
