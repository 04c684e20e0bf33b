"""Many jobs retried or deleted at once."""

import io
import os
import signal
import sys

import pytest

from pinlater.cli.bulk_action import BulkAction
from pinlater.cli.filters import Filter
from pinlater.cli.job_selection import JobSelection
from pinlater.errors import PasswordInvalid, PriorityNotSupported
from pinlater.model.state import JobState


class Jobs:
    """A server with so many jobs at its priority levels: it counts up to a bound, and hands over up to a limit."""

    def __init__(self, *numbers, count_limit=100_000, comes_back=False):
        self.numbers = list(numbers)
        self.limits = []
        self._count_limit = count_limit
        self._comes_back = comes_back

    def __call__(self, call):
        request = call.arguments.request
        if request.priority > len(self.numbers):
            return PriorityNotSupported("no such level")
        level = request.priority - 1
        if call.method == "getJobCount":
            return 0 if request.countFutureJobs else min(self.numbers[level], self._count_limit)
        self.limits.append(request.limit)
        number = min(self.numbers[level], request.limit)
        self.numbers[level] -= 0 if self._comes_back else number
        return number


def test_retry_failed(tool_run, server):
    server.answer = Jobs(0, 12, 0)
    assert tool_run("retry-failed", "email", "--attempts", "3", "--limit", "50")[1] == "12 jobs retried\n"
    last = next(call for call in server.calls if call.method == "retryFailedJobs").arguments.request
    assert (last.priority, last.attemptsToAllow, last.limit) == (2, 3, 12)
    assert last.runAfterTimestampMillis is None


ALL = [["retry-failed", "email"], ["delete-jobs", "email", "--state", "pending", "--yes"]]


@pytest.mark.parametrize("words", ALL, ids=lambda words: words[0])
def test_all_jobs_of_all_priorities_are_meant(tool_run, server, words):
    server.answer = jobs = Jobs(1700, 0, 30)
    assert tool_run(*words)[1].startswith("1730 jobs")
    assert jobs.numbers == [0, 0, 0]


@pytest.mark.parametrize("words", ALL, ids=lambda words: words[0])
def test_a_limit_and_a_priority_mean_fewer(tool_run, server, words):
    server.answer = jobs = Jobs(1700, 900, 30)
    assert tool_run(*words, "--limit", "2000")[1].startswith("2000 jobs")
    assert jobs.numbers == [0, 600, 30]
    assert tool_run(*words, "--priority", "3")[1].startswith("30 jobs")
    assert jobs.numbers == [0, 600, 0]
    assert tool_run(*words, "--priority", "4")[0] == 1


@pytest.mark.parametrize("words", ALL, ids=lambda words: words[0])
def test_jobs_beyond_what_the_server_counts_are_meant_too(tool_run, server, words):
    server.answer = jobs = Jobs(25_000, 300, count_limit=10_000)
    assert tool_run(*words)[1].startswith("25300 jobs")
    assert jobs.numbers == [0, 0]


@pytest.mark.parametrize("words", ALL, ids=lambda words: words[0])
def test_jobs_beyond_what_a_server_counts_that_counts_little_are_reported(tool_run, server, words):
    server.answer = jobs = Jobs(1400, 700, 300, count_limit=600)
    _, out, err = tool_run(*words)
    assert out.startswith("1500 jobs")
    assert jobs.numbers == [800, 100, 0]
    assert err.startswith("at least 700 jobs left: new since the start, or beyond what the server counts (COUNT_LIMIT)")
    _, out, err = tool_run(*words, "--limit", "600")
    assert (out.split()[0], err) == ("600", ""), "no more were wanted"


def test_jobs_that_fail_again_at_once_are_retried_once(tool_run, server):
    server.answer = jobs = Jobs(1200, comes_back=True)
    _, out, err = tool_run("retry-failed", "email")
    assert out == "1200 jobs retried\n"
    assert jobs.limits == [500, 500, 200]
    assert err.startswith("at least 1200 jobs left")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_delete_jobs_counts_and_asks(tool_run, server, monkeypatch, answer, status):
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    server.answer = lambda call: 5 if call.method == "getJobCount" else 10
    found, _, err = tool_run("delete-jobs", "email", "--state", "pending", "--limit", "7", "--priority", "1")
    assert found == status
    assert "Delete 7 of 10 PENDING jobs of priority 1 in email?" in err
    assert ("deleteJobs" in server.methods) is (answer == "y")


def test_the_question_of_a_move_names_both_queues(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("y\nn\n"))
    wanted = JobSelection("email", JobState.FAILED, Filter())
    assert BulkAction("move", "moving", "moved").confirm("3", wanted, "email_big")
    assert "Move 3 FAILED jobs in email to email_big?" in capsys.readouterr().err
    assert BulkAction("move", "moving", "moved").confirm("1", wanted, "email_big") is False
    assert "Move 1 FAILED job in email to email_big?" in capsys.readouterr().err


def test_delete_jobs_with_yes_does_not_ask(tool_run, server):
    server.answer = Jobs(3)
    assert tool_run("delete-jobs", "email", "--state", "failed", "--yes") == (0, "3 jobs deleted\n", "")
    assert server.methods.count("deleteJobs") == 1


@pytest.mark.parametrize(
    "words",
    [["retry-failed", "email"], ["delete-jobs", "email", "--state", "failed", "--yes"]],
    ids=lambda words: words[0],
)
def test_an_interrupt_ends_after_the_batch_and_says_what_was_done(tool_run, server, words):
    server.answer = interrupting(Jobs(5000))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, it is ignored
    try:
        status, out, err = tool_run(*words, "--limit", "5000")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    past = "retried" if words[0] == "retry-failed" else "deleted"
    assert (status, out, err) == (130, "", f"pinlater: interrupted; 500 jobs were {past} before\n")
    assert sum(method != "getJobCount" for method in server.methods) == 1


def interrupting(jobs):
    """Let ^C be pressed at each change of jobs."""

    def answer(call):
        if call.method != "getJobCount":
            os.kill(os.getpid(), signal.SIGINT)
        return jobs(call)

    return answer


def test_an_interrupt_that_is_ignored_ends_nothing(tool_run, server):
    server.answer = interrupting(Jobs(5000))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert tool_run("retry-failed", "email", "--limit", "1500") == (0, "1500 jobs retried\n", "")
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_says_what_was_done_before(tool_run, server):
    jobs = Jobs(5000)
    server.answer = lambda call: PasswordInvalid("odd") if len(jobs.limits) == 2 else jobs(call)
    status, _, err = tool_run("retry-failed", "email", "--limit", "5000")
    assert status == 1
    assert err.endswith("; 1000 jobs were retried before\n")
