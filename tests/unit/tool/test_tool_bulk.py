"""Many jobs retried or deleted at once."""

import io
import os
import signal
import sys

import pytest

from pinlater.client.tool.bulk import Deed
from pinlater.client.tool.chosen import Wanted
from pinlater.client.tool.filters import Filter
from pinlater.errors import PasswordInvalid
from pinlater.state import JobState
from tests.unit.tool.answers import request


def test_retry_failed(tool_run, server):
    server.answer = lambda _: 12
    assert tool_run("retry-failed", "email", "--attempts", "3", "--limit", "50")[1] == "12 jobs retried\n"
    assert (request(server).attemptsToAllow, request(server).limit) == (3, 50)
    assert request(server).runAfterTimestampMillis is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_delete_jobs_counts_and_asks(tool_run, server, monkeypatch, answer, status):
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    server.answer = lambda call: 5 if call.method == "getJobCount" else 10
    found, _, err = tool_run("delete-jobs", "email", "--state", "pending", "--limit", "7")
    assert found == status
    assert "Delete 7 of 10 PENDING jobs of priority 1 in email?" in err
    assert ("deleteJobs" in server.methods) is (answer == "y")


def test_the_question_of_a_move_names_both_queues(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    wanted = Wanted("email", JobState.FAILED, Filter())
    assert Deed("move", "moving", "moved").confirmed("3", wanted, "email_big")
    assert "Move 3 FAILED jobs in email to email_big?" in capsys.readouterr().err


def test_delete_jobs_with_yes_does_not_ask(tool_run, server):
    server.answer = lambda _: 3
    assert tool_run("delete-jobs", "email", "--state", "failed", "--yes") == (0, "3 jobs deleted\n", "")
    assert server.methods == ["deleteJobs"]


@pytest.mark.parametrize(
    "words",
    [["retry-failed", "email"], ["delete-jobs", "email", "--state", "failed", "--yes"]],
    ids=lambda words: words[0],
)
def test_an_interrupt_ends_after_the_batch_and_says_what_was_done(tool_run, server, words):
    def answer(_):
        os.kill(os.getpid(), signal.SIGINT)
        return 500

    server.answer = answer
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, it is ignored
    try:
        status, out, err = tool_run(*words, "--limit", "5000")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    past = "retried" if words[0] == "retry-failed" else "deleted"
    assert (status, out, err) == (130, "", f"pinlater: interrupted; 500 jobs were {past} before\n")
    assert len(server.calls) == 1


def test_an_interrupt_that_is_ignored_ends_nothing(tool_run, server):
    def answer(_):
        os.kill(os.getpid(), signal.SIGINT)
        return 500

    server.answer = answer
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert tool_run("retry-failed", "email", "--limit", "1500") == (0, "1500 jobs retried\n", "")
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_says_what_was_done_before(tool_run, server):
    server.answer = lambda _: 500 if len(server.calls) < 3 else PasswordInvalid("odd")
    status, _, err = tool_run("retry-failed", "email", "--limit", "5000")
    assert status == 1
    assert err.endswith("; 1000 jobs were retried before\n")
