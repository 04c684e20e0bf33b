"""The command top: once, and live in a terminal."""

import json
import signal
import time

import pytest

from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from tests.integration.tool.screen import Screen
from tests.support.server import wait_for
from tests.support.tool import TOOL

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


def test_once(tool, client):
    client.create_queue("topped")
    client.enqueue_jobs("topped", [NewJob(b"x")] * 5)
    client.dequeue_jobs("topped", 2)
    client.change_queue("topped", jobs_per_second=7.0)
    [look] = json.loads(tool("top", "topped", "--once", "--json")[1])
    assert (look["due"], look["running"], look["succeeded"]) == (3, 2, 0)
    assert look["wait_seconds"] >= 0
    assert look["settings"]["jobs_per_second"] == 7
    header, row = tool("top", "topped", "--once")[1].splitlines()
    assert header.split()[:4] == ["QUEUE", "DUE", "SCHEDULED", "RETRYING"]
    assert row.split()[:5] == ["topped", "3", "0", "0", "2"]
    assert row.endswith("7/s")
    assert tool("top", "absent", "--once")[0] == 1
    assert len(json.loads(tool("top", "topped", "--json")[1])) == 1
    assert tool("top")[0] == 2  # no terminal


def test_the_longest_wait_counts_whatever_the_priority_and_also_of_a_paused_queue(tool, client):
    client.create_queue("waiting")
    now_ms = int(time.time() * 1000)
    client.enqueue_jobs("waiting", [NewJob(b"new", 1), NewJob(b"old", 2, now_ms - 5_400_000)])
    for is_paused in (False, True):
        client.change_queue("waiting", paused=is_paused)
        [look] = json.loads(tool("top", "waiting", "--once", "--json")[1])
        assert 5400 <= look["wait_seconds"] < 5500


def test_live_it_follows_the_counts_and_the_window_and_ends_on_q(client, environment):
    client.create_queue("live")
    client.create_queue("other_live")
    with Screen([*TOOL, "top", "live", "other_live", "--interval", "0.2"], environment, columns=120) as screen:
        assert wait_for(lambda: any(line.startswith("live ") for line in screen.frame()))
        client.enqueue_jobs("live", [NewJob(b"x")] * 3)
        wait_for(lambda: any(line.split()[:2] == ["live", "3"] for line in screen.frame()))
        job, *_ = client.dequeue_jobs("live", 1)
        client.ack("live", [Ack(job.descriptor, job.claim)])
        wait_for(lambda: any(line.split()[:7] == ["live", "2", "0", "0", "0", "0", "1"] for line in screen.frame()))
        screen.press(b"\x1b[D" * 2 + b"/other\r")
        wait_for(lambda: [line.split()[0] for line in screen.frame()[3:4]] == ["other_live"])
        assert "1 of 2 queues" in screen.frame()[0]
        screen.press(b"\x1b")
        wait_for(lambda: "2 queues" in screen.frame()[0])
        screen.resize(3, 20)
        screen.signal(signal.SIGWINCH)
        wait_for(lambda: len(frame := screen.frame()) <= 3 and max(map(len, frame)) <= 20, what=screen.frame)
        screen.press(b"q")
        assert screen.status() == 0
        assert ENTER in screen.text()
        assert screen.text().rstrip().endswith(LEAVE)
        assert screen.modes_now() == screen.modes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_live_it_ends_on_a_signal_and_leaves_the_terminal_as_it_was(client, environment, number):
    with Screen([*TOOL, "top"], environment) as screen:
        wait_for(lambda: "QUEUE" in screen.text())
        screen.signal(number)
        assert screen.status() == 0
        assert screen.modes_now() == screen.modes


def test_live_it_gives_the_terminal_back_while_it_is_stopped_and_takes_it_again(client, environment):
    with Screen([*TOOL, "top"], environment) as screen:
        wait_for(lambda: "QUEUE" in screen.text())
        screen.signal(signal.SIGTSTP)
        wait_for(screen.is_stopped)
        assert screen.text().rstrip().endswith(LEAVE)
        assert screen.modes_now() == screen.modes
        screen.signal(signal.SIGCONT)
        wait_for(lambda: screen.text().rpartition(ENTER)[0].count(LEAVE) == 1 and "QUEUE" in screen.frame()[2])
        assert screen.modes_now() != screen.modes
        screen.press(b"q")
        assert screen.status() == 0
        assert screen.modes_now() == screen.modes


def test_a_terminal_that_does_not_know_its_size_is_taken_for_an_ordinary_one(client, environment):
    client.create_queue("sizeless")
    with Screen([*TOOL, "top", "sizeless"], environment, rows=0, columns=0) as screen:
        wait_for(lambda: any(line.startswith("sizeless ") for line in screen.frame()))
        screen.press(b"q")
        assert screen.status() == 0


def test_live_it_says_that_the_server_is_away_and_ends_all_the_same(environment):
    away = environment | {"PINLATER_SERVERS": "127.0.0.1:1"}
    with Screen([*TOOL, "top", "--timeout", "1"], away) as screen:
        wait_for(lambda: "connection refused" in screen.text())
        screen.press(b"q")
        assert screen.status() == 0
