"""The custom status: every attempt finds room in it, and is read back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater import Job
from pinlater.jobs.step_failures import note_step
from pinlater.model.status import (
    MAX_STATUS_CHARACTERS,
    FailedAttempt,
    format_failure,
    format_origin,
    parse_status,
    status_space,
)
from pinlater.testing import LocalServer
from pinlater.worker.session.failure_text import describe_failure
from tests.support.examples import examples

AT = 1_700_000_000
WHERE = format_origin("web1", 77, AT)
CRASH = f"[{WHERE}] crash 1: the process died while it ran SendMail for 3.10 s: killed by SIGSEGV\n"


def told(attempt, allowed, error="OSError: away", frames=("  File a\n    b()",)):
    header = f"attempt {attempt}/{allowed} {WHERE} 0.52 s"
    return format_failure(header, error, frames, status_space(attempt, allowed))


def test_what_is_written_is_read():
    text, found = parse_status(f"from the import\n{told(1, 4)}{CRASH}{told(3, 4, frames=())}")
    assert text == "from the import\n"
    about = {"host": "web1", "pid": 77, "at_ms": AT * 1000}
    assert found == [
        FailedAttempt("OSError: away", "  File a\n    b()", attempt=1, attempts_allowed=4, seconds=0.52, **about),
        FailedAttempt(CRASH.partition("] ")[2].strip(), "", **about),
        FailedAttempt("OSError: away", "", attempt=3, attempts_allowed=4, seconds=0.52, **about),
    ]


@pytest.mark.parametrize(
    ("block", "title"),
    [
        (told(2, 4), "attempt 2 of 4"),
        (CRASH, "process died"),
        (f"[{WHERE}] failed; its process ended before it could say why\n", "process died"),
        (f"[{WHERE}] not run again: its process died in its last attempt, or its claim was lost\n", "process died"),
        (f"[{WHERE}] no worker knows it: no job class is named 'New' here\n", "no attempt"),
        (f"[{WHERE}] waits for code that fits: StepMismatch: another call\n", "no attempt"),
        (f"[{WHERE}] not run: this tick has no attempts left\n", "no attempt"),
    ],
)
def test_a_block_of_a_job_that_did_not_run_is_no_death(block, title):
    [found] = parse_status(block)[1]
    assert found.title == title


def test_a_text_that_does_not_end_its_line_is_told_apart():
    text, found = parse_status(f"from the import{told(1, 4)}{told(2, 4)}")
    assert (text, [each.attempt for each in found]) == ("from the import", [1, 2])


@pytest.mark.parametrize(
    "status",
    ["", "some text", "[main 12] crash 1: of others\n", "[2024-01-01 host 1] text\n", "[attempt 1/2 host 3 0.1 s]"],
)
def test_what_others_write_is_text(status):
    assert parse_status(status) == (status, [])


def test_crashes_that_were_written_at_the_front_are_put_in_order():
    early = told(1, 4).replace("2023", "2022")
    assert [each.attempt for each in parse_status(f"{CRASH}{early}")[1]] == [1, None]


def test_a_moment_that_is_none_does_no_harm():
    [found] = parse_status("[2024-02-31T99:00:00Z host 1] x\n")[1]
    assert found.at_ms is None


def test_a_line_that_is_cut_says_so():
    line = told(1, 4, "E" * 2000, frames=()).removesuffix("\n")
    assert line.endswith("E…")
    assert len(line) == status_space(1, 4).line - 1
    assert told(1, 4, "E" * 20, frames=()).endswith("E\n")


def longest(attempt, allowed):
    header = f"attempt {attempt}/{allowed} {format_origin('h' * 99, 4194304, AT)} 86400.00 s"
    frames = [f"  File {'f' * 60}, line {n}, in function\n    call(something)" for n in range(50)]
    return format_failure(header, "SomeError: " + "x" * 2000, frames, status_space(attempt, allowed))


@pytest.mark.parametrize("allowed", [*range(1, 60), 100, 1000])
def test_all_attempts_fit_beside_what_crashes_need(allowed):
    texts = [longest(attempt, allowed) for attempt in range(1, allowed + 1)]
    status = "".join(texts)
    assert len(status) + 3 * len(CRASH) <= MAX_STATUS_CHARACTERS
    _, found = parse_status(status)
    numbers = [each.attempt for each in found]
    if allowed <= 20:
        assert numbers == list(range(1, allowed + 1))
    else:
        assert numbers == [*range(1, 6), *range(allowed - 14, allowed + 1)]
    assert all("SomeError: xx" in each.error for each in found)
    traced = [each.attempt for each in found if "in function" in each.traceback]
    assert (traced[0], traced[-1]) == (1, allowed)
    if allowed <= 4:
        assert traced == numbers


def test_a_job_with_few_attempts_has_room_for_retries_by_hand():
    status = longest(1, 1) * 3
    assert len(status) <= MAX_STATUS_CHARACTERS
    assert len(longest(4, 4)) <= MAX_STATUS_CHARACTERS - sum(len(longest(attempt, 4)) for attempt in range(1, 5))


def test_frames_are_kept_whole_and_the_innermost_first():
    frames = [f"  File {n}\n    {'x' * 400}" for n in range(9)]
    lines = told(1, 1, frames=frames).splitlines()[1:]
    assert [line for line in lines if "File" in line] == ["  File 6", "  File 7", "  File 8"]


@examples(100)
@given(st.text(max_size=300), st.integers(1, 60), st.integers(1, 60), st.text(max_size=50))
def test_any_error_is_read_back(error, attempt, more, before):
    allowed = attempt + more - 1
    text, found = parse_status(before + told(attempt, allowed, error=error, frames=()))
    if status_space(attempt, allowed).total:
        assert text == before
        assert [each.attempt for each in found] == [attempt]
        assert found[0].error == " ".join(error.split())[: len(found[0].error)]


def test_a_traceback_shows_where_it_was():
    def fail():
        raise OSError("on\nfire")

    with pytest.raises(OSError) as caught:
        fail()
    text = describe_failure(2, 4, 1.5, caught.value)
    assert re.match(r"\[attempt 2/4 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \S+ \d+ 1\.50 s\] OSError: on fire\n", text)
    assert text.endswith('in fail\n    raise OSError("on\\nfire")\n')
    assert describe_failure(2, 4, 1.5, caught.value, with_traceback=False).count("\n") == 1


@pytest.mark.parametrize("step", ["charge", 'a "b"\n', "\N{SNOWMAN}", "x" * 50])
def test_the_step_in_which_an_attempt_failed_is_told(step):
    def fail():
        raise OSError("on fire")

    with pytest.raises(OSError) as caught:
        fail()
    for name in (step, "outer"):
        note_step(caught.value, name)
    text = describe_failure(1, 2, 1.5, caught.value)
    [failed] = parse_status(text)[1]
    assert failed.step == step
    assert failed.traceback.endswith('raise OSError("on fire")')


@pytest.mark.parametrize("line", ["  in step charge", '  in step "', '  in step "\\"', 'in step "charge"'])
def test_a_line_that_only_looks_like_a_step_is_left(line):
    [failed] = parse_status(f"[attempt 1/2 2026-11-21T12:30:05Z web1 4242 0.52 s] OSError\n{line}\n")[1]
    assert (failed.step, failed.traceback) == ("", line)


class Hopeless(Job, queue="hopeless", attempts=9):
    def run(self, context):
        self.deep(40, context.attempt)

    def deep(self, depth, attempt):
        if depth:
            self.deep(depth - 1, attempt)
        raise OSError(f"attempt {attempt} {'x' * 3000}")


def test_every_attempt_of_a_job_is_visible(tmp_path):
    with LocalServer(tmp_path) as server:
        handle = server.client(Hopeless).enqueue(Hopeless(), status="hand-made")
        for _ in range(9):
            server.run_worker(Hopeless)
            server.advance(4000)
        info = handle.status()
        assert (info.state.name, info.remark) == ("FAILED", "hand-made")
        assert [each.attempt for each in info.failed_attempts] == list(range(1, 10))
        assert all(f"OSError: attempt {each.attempt} xx" in each.error for each in info.failed_attempts)
        assert "in deep" in info.failed_attempts[-1].traceback
