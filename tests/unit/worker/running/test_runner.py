"""How attempts end, and what is kept of it."""

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinlater.errors import Discard, Retry
from pinlater.jobs.batch import Batch
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.retry_delay import LONGEST_DELAY_SECONDS
from pinlater.model.status import status_space
from pinlater.testing import FakeContext
from pinlater.worker import logs
from pinlater.worker.session.failure_text import describe_failure
from pinlater.worker.session.outcome import Failure, Interruption
from tests.unit.worker.running.runner_bench import (
    Act,
    ActBadly,
    ActOnce,
    Serve,
    ServeInTime,
    ServeLater,
    acts,
    failing_handler,
    seen,
    tenant,
)


class Busy(Retry):
    """Says why in its own words."""

    def __init__(self, who):
        super().__init__(after=5)
        self.who = who

    def __str__(self):
        return f"{self.who} is busy"


class BusyOfOld(Retry):
    """Does not call the constructor of its base, which gives the text."""

    after = 5

    def __init__(self, text):
        Exception.__init__(self, text)


class Gone(Discard):
    def __str__(self):
        return "the order is gone"


@pytest.mark.parametrize("kind", [Serve, ServeLater, ServeInTime])
def test_context_variables_end_with_the_job(bench, kind):
    for who in ("first", "second"):
        assert bench.run(kind(who=who)) is None
    assert seen == ["nobody", "nobody"]
    assert tenant.get() == "nobody"


def test_a_success_is_none(bench):
    assert bench.run(Act(what="nothing")) is None
    assert seen == ["acts:s1:p1:7 attempt 1/4"]
    assert logs.current_job.get().job is None


def test_the_claim_table_shows_the_running_job_and_its_retry_delay(bench):
    bench.run(Act(what="nothing"), allowed=4, remaining=3)
    assert bench.batch.area.delays[0] == 4000
    bench.run(Act(what="nothing"), allowed=4, remaining=1)
    assert bench.batch.area.delays[0] == 0, "no attempt follows the last"
    assert bench.kinds[bench.batch.area.kinds[0]] == "Act"


def test_the_claim_table_shows_that_a_batch_runs_and_not_another_class(bench):
    bench.run(Batch(size=0))
    assert bench.kinds[bench.batch.area.kinds[0]] == "pinlater.batch"


def test_an_exception_is_a_failure_with_its_reason(bench):
    outcome = bench.run(Act(what="fail"), allowed=4, remaining=3)
    assert isinstance(outcome, Failure)
    assert outcome.delay_ms == 4000
    first, *trace = outcome.status.splitlines()
    assert first.startswith("[attempt 2/4 ")
    assert first.endswith(" s] ValueError: some reason")
    assert any("in fail" in line for line in trace)
    assert not any("worker/running/runner.py" in line for line in trace)


@pytest.mark.parametrize("what", ["exit", "unprintable"])
def test_whatever_is_raised_is_a_failure(bench, what):
    assert isinstance(bench.run(Act(what=what)), Failure)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("retry without a time", "AttributeError: 'BareRetry' object has no attribute 'after'"),
        ("failing log", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_end_that_cannot_be_told_is_a_failure_and_no_crash(bench, what, said):
    """Each crash of a process is counted, and after three of them the job would be given up as poison."""
    try:
        outcome = bench.run(Act(what=what))
    finally:
        logging.getLogger().removeHandler(failing_handler)
    assert isinstance(outcome, Failure)
    assert f"] {said}\n" in outcome.status
    assert (outcome.delay_ms, outcome.job) == (2000, "Act")
    assert bench.run(Act(what="nothing")) is None


@pytest.mark.parametrize(
    ("after", "delay_ms"),
    [(0.0, 0), (1.25, 1250), (None, 2000), (1e300, int(LONGEST_DELAY_SECONDS * 1000))],
)
def test_a_job_may_say_when(bench, after, delay_ms):
    outcome = bench.run(Act(what="retry", value=after))
    assert outcome.delay_ms == delay_ms
    assert outcome.status.endswith("Retry: busy\n")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (Retry(after=5), "Retry: OSError: the bank is away"),
        (Retry(), "Retry: OSError: the bank is away"),
        (Retry(after=5, reason="busy"), "Retry: busy"),
        (Discard(), "Discard: OSError: the bank is away"),
        (Discard("refused"), "Discard: refused"),
        (Busy("the bank"), "Busy: the bank is busy"),
        (BusyOfOld("busy since noon"), "BusyOfOld: busy since noon"),
        (Gone(), "Gone: the order is gone"),
        (ValueError(), "ValueError"),
    ],
)
@pytest.mark.parametrize("by", ["from", "context"])
def test_a_retry_without_a_reason_has_that_of_the_caught_exception(bench, monkeypatch, raised, said, by):
    def act(job, context):
        try:
            raise OSError("the bank is away")
        except OSError as error:
            if by == "from":
                raise raised from error
            raise raised  # noqa: B904 - without "from", as some write it

    monkeypatch.setitem(acts, "catch", act)
    assert f"] {said}\n" in bench.run(Act(what="catch")).status


def test_a_retry_from_none_has_no_reason(bench, monkeypatch):
    def act(job, context):
        try:
            raise OSError("the password is 1234")
        except OSError:
            raise Retry(after=5) from None

    monkeypatch.setitem(acts, "hide", act)
    assert bench.run(Act(what="hide")).status.endswith("Retry: retry after 5 s\n")


def test_a_delay_that_is_no_number_is_the_longest(bench, monkeypatch):
    monkeypatch.setitem(acts, "retry", lambda job, context: (_ for _ in ()).throw(Retry(after=float("nan"))))
    assert bench.run(Act(what="retry")).delay_ms == int(LONGEST_DELAY_SECONDS * 1000)


def test_a_discarded_job_is_final(bench):
    outcome = bench.run(Act(what="discard"))
    assert outcome.delay_ms is None
    assert outcome.status.endswith("Discard: refused for good\n")


def test_an_exception_that_the_class_gives_up_on_is_final(bench):
    outcome = bench.run(ActOnce(what="key"))
    assert outcome.delay_ms is None
    assert "KeyError: 2" in outcome.status
    assert "runner_bench.py" in outcome.status, "where it was"


@pytest.mark.parametrize("what", ["value", "retry"])
def test_other_exceptions_and_retries_are_not(bench, what):
    assert bench.run(ActOnce(what=what)).delay_ms is not None


def test_an_interrupted_job_goes_on_from_its_record(bench):
    assert bench.run(Act(what="interrupt")) == Interruption(encode_body(Act(what="interrupt", value=7.0)))


def test_an_interrupted_job_that_cannot_be_written_failed(bench):
    assert isinstance(bench.run(Act(what="spoil")), Failure)


def test_a_broken_backoff_does_not_lose_the_job(bench):
    outcome = bench.run(ActBadly())
    assert 1000 <= outcome.delay_ms <= 1100


def test_a_body_that_cannot_be_read(bench, caplog):
    outcome = bench.run_body(b'{"job": "Unheard"}', remaining=3)
    assert isinstance(outcome, Failure)
    assert outcome.delay_ms is not None
    assert "no job class is named 'Unheard' here" in outcome.status
    assert 2000 <= outcome.delay_ms <= 2200
    assert ["load its module, too" in record.getMessage() for record in caplog.records] == [True]


def test_failures_are_logged_the_last_one_as_an_error(bench, caplog):
    bench.run(Act(what="fail"))
    bench.run(Act(what="fail"), remaining=1)
    bench.run(Act(what="retry", value=3.0))
    assert [(record.levelname, record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        ("WARNING", "Act failed, next attempt in 2.0 s: ValueError: some\n reason", True),
        ("ERROR", "Act failed for the last time: ValueError: some\n reason", True),
        ("WARNING", "Act failed, next attempt in 3.0 s: busy", False),
    ]


def test_a_status_is_never_too_long():
    def deep(depth):
        if depth:
            return deep(depth - 1)
        raise ValueError("x" * 5000)

    with pytest.raises(ValueError) as caught:
        deep(50)
    text = describe_failure(1, 2, 0.5, caught.value)
    assert len(text) <= status_space(1, 2).total
    assert text.startswith("[attempt 1/2 20")
    assert " 0.50 s] ValueError: xxx" in text
    assert 'raise ValueError("x" * 5000)' in text


def test_a_status_keeps_the_lines_of_the_job_and_its_step_alone():
    def fail():
        raise ValueError("boom")

    def run(context):
        with context.saga() as saga:
            saga.step("pay", fail, undo=print)

    with pytest.raises(ValueError) as caught:
        run(FakeContext(Act(what="")))
    text = describe_failure(1, 2, 0.5, caught.value)
    assert [line.split(" in ")[1] for line in text.split("\n") if line.startswith("  File ")][-2:] == ["run", "fail"]
    assert f"{os.sep}jobs{os.sep}saga.py" not in text
    assert f"{os.sep}jobs{os.sep}steps.py" not in text


class Unspeakable(Exception):
    def __str__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("caf\udce9"), "ValueError: caf\\udce9"),
        (Unspeakable(), "Unspeakable: (its text cannot be had: KeyboardInterrupt)"),
    ],
)
def test_a_status_is_always_one_that_can_be_sent(error, text):
    assert describe_failure(1, 2, 0.0, error).encode().endswith(f" 0.00 s] {text}\n".encode())


LINE = logging.LogRecord("any", logging.INFO, "f.py", 1, "hello %s", ("you",), None)


def test_log_lines_name_the_running_job(monkeypatch):
    formatter = logs.JobFormatter()
    assert formatter.format(LINE).endswith(f"INFO {LINE.process} hello you")
    monkeypatch.setattr(logs.solo_job, "job", "acts:s1:p1:7 attempt 1/4")
    assert formatter.format(LINE).endswith(f"INFO {LINE.process} [acts:s1:p1:7 attempt 1/4] hello you")
    with ThreadPoolExecutor() as helpers:
        assert "acts:s1:p1:7" in helpers.submit(formatter.format, LINE).result(), "of a job's own threads, too"


async def line_of(job):
    logs.current_job.set(logs.CurrentJob(job))
    await asyncio.sleep(0)
    return await asyncio.to_thread(logs.JobFormatter().format, LINE)


async def lines_of(*jobs):
    return await asyncio.gather(*map(line_of, jobs))


def test_log_lines_name_the_job_of_their_task():
    first, second = asyncio.run(lines_of("first", "second"))
    assert " [first] " in first
    assert " [second] " in second
    assert "[" not in logs.JobFormatter().format(LINE)
