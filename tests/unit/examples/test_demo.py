"""The parts of the demo that need no server and no worker."""

import io
import json
import time
import urllib.error
import urllib.request

import pytest

from jobs_example.demo.__main__ import prepare_folder
from jobs_example.demo.crash import running_pid
from jobs_example.demo.programs import DemoError, Program, Server, free_ports
from jobs_example.demo.receiver import LOST, REFUSED, Receiver, answer_to
from jobs_example.demo.screen import Screen, bar
from jobs_example.demo.work import EVENTS, IndexStatus
from pinlater import JobState
from pinlater.model.jobs import JobInfo


def test_the_schedule_has_every_kind_of_failure():
    first = [answer_to({"number": number}, 0) for number in range(1, EVENTS + 1)]
    assert {answer.status for answer in first} == {200, 500, 503, 410, 0}
    assert sum(answer.retry_after > 0 for answer in first) >= 3


def test_all_but_the_refused_event_are_taken_in_the_end():
    numbers = [*range(EVENTS + 1), None]
    taken = {number for number in numbers if answer_to({"number": number}, 5).takes}
    assert taken == set(numbers) - {REFUSED}


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def post(receiver, number, key):
    request = urllib.request.Request(receiver.url, json.dumps({"number": number}).encode(), {"Idempotency-Key": key})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as response:
        return response.status


def test_an_event_counts_once(receiver):
    assert [post(receiver, 2, "a"), post(receiver, 2, "a"), post(receiver, 2, "b")] == [200] * 3
    assert receiver.taken.keys() == {"a", "b"}
    assert receiver.repeats == 1


def test_the_lost_answer_leaves_the_event_taken(receiver):
    with pytest.raises(OSError):
        post(receiver, LOST, "key")
    assert "key" in receiver.taken
    assert post(receiver, LOST, "key") == 200
    assert receiver.repeats == 1


def test_a_busy_receiver_says_when_to_come_back(receiver):
    with pytest.raises(urllib.error.HTTPError) as raised:
        post(receiver, 7, "key")
    with raised.value:
        assert (raised.value.code, raised.value.headers["Retry-After"]) == (503, "1")
    assert receiver.taken == {}


CLAIM = "127.0.0.1:9010:1700000000000:worker:some-host:4711:a1b2:17"


@pytest.mark.parametrize(
    ("state", "claim", "pid"),
    [
        (JobState.IN_PROGRESS, CLAIM, 4711),
        (JobState.PENDING, CLAIM, None),
        (JobState.IN_PROGRESS, "h:1:2:python:host:4711:3", None),
        (JobState.IN_PROGRESS, None, None),
    ],
)
def test_the_claim_names_the_process(state, claim, pid):
    assert running_pid(IndexStatus(JobInfo("q:s1:p1:1", state, 1, 1, claim=claim), 0)) == pid


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_the_state_in_place():
    terminal = Terminal()
    screen = Screen(terminal)
    screen.status(["one", "two"], "short")
    screen.say("event")
    assert "one\ntwo\n\x1b[2F\x1b[J" in terminal.getvalue()
    assert terminal.getvalue().endswith("event\n")


def test_anything_else_gets_plain_lines_now_and_then():
    stream = io.StringIO()
    screen = Screen(stream)
    for _ in range(3):
        screen.status(["one", "two"], "short")
    assert stream.getvalue().count("short") == 1
    assert "\x1b" not in stream.getvalue()


def test_the_bar_is_as_long_as_the_share():
    assert [bar(part, 10, width=10) for part in (0, 5, 10)] == ["." * 10, "#####.....", "#" * 10]
    assert bar(0, 0, width=4) == "...."


def test_free_ports_differ():
    assert len(set(free_ports(5))) == 5


def test_a_program_that_is_missing_is_explained(tmp_path):
    with pytest.raises(DemoError, match="make venv"):
        Program("no-such-program", [], tmp_path)


def check_until_it_fails(program):
    for _ in range(200):
        program.check()
        time.sleep(0.05)


def test_a_program_that_ended_is_reported_with_its_last_words(tmp_path):
    script = "print('last words'); raise SystemExit(3)"
    with Program("python", ["-c", script], tmp_path) as program, pytest.raises(DemoError, match=r"(?s)status 3.*last"):
        check_until_it_fails(program)


def test_only_an_earlier_run_is_removed(tmp_path):
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    (earlier / Server.LOG).touch()
    prepare_folder(earlier)
    assert list(earlier.iterdir()) == []
    (tmp_path / "precious").touch()
    with pytest.raises(DemoError, match="name another folder"):
        prepare_folder(tmp_path)
    assert (tmp_path / "precious").exists()
