"""``pinlater workers``: who works, and on what."""

import json
import time

import pytest

from pinlater.protocol.messages import (
    PinLaterJobClass,
    PinLaterQueueLoad,
    PinLaterRunningJob,
    PinLaterUnknownJobs,
    PinLaterWorker,
    PinLaterWorkerProcess,
)
from tests.unit.cli.answers import with_time


def process(pid, *jobs, queues=("email",), **fields):
    running = [PinLaterRunningJob(name, int((time.time() - seconds) * 1000)) for name, seconds in jobs]
    return PinLaterWorkerProcess(pid, queueNames=list(queues), runningJobs=running, **fields)


def worker(host, *processes, silent_seconds=1.0, store_ahead=0.0, **fields):
    reported_ms = int((time.time() - silent_seconds + store_ahead) * 1000)
    return PinLaterWorker(f"{host}:1", host, processes=list(processes), reportedAtTimestampMillis=reported_ms, **fields)


@pytest.fixture
def lines(tool_run, server):
    """Return the rows that are shown for some workers, cut into cells."""

    def show(*workers, options=(), store_ahead=0.0):
        server.answer = with_time(list(workers), store_ahead)
        status, out, err = tool_run("workers", *options)
        assert (status, err) == (0, "")
        header, *rows = out.splitlines()
        starts = [header.index(name) for name in ("STATE", "POOL", "RUNS")]
        return header, rows, [(row[starts[0] : starts[1]].strip(), row[starts[2] :]) for row in rows]

    return show


def test_each_process_has_a_line(lines):
    full = worker(
        "web1",
        process(43, ("email:s1:p1:7", 90), pool="fast", memoryBytes=100 * 2**20, jobsEnded=12345),
        process(44),
        pid=42,
        version="1.2.3",
        startedAtTimestampMillis=1_700_000_000_000,
    )
    header, rows, cells = lines(full)
    assert header.split() == [
        "HOST", "WORKER", "VERSION", "UP", "SINCE", "STATE", "POOL", "PROCESS", "MEMORY", "ENDED", "RUNS"
    ]  # fmt: skip
    words = rows[0].split()
    assert words[:3] == ["web1", "42", "1.2.3"]
    assert words[3] == "2023-11-14T22:13:20.000Z"
    assert words[4:10] == ["up", "fast", "43", "100.0", "MiB", "12,345"]
    assert cells[0][1].startswith("email:s1:p1:7 for 9")
    assert rows[1].split()[4:] == ["up", "-", "44", "-", "-", "idle"]


def test_a_worker_that_drains_or_says_nothing_more_is_marked(lines):
    _, _, cells = lines(
        worker("a", process(1), isDraining=True),
        worker("b", process(2), silent_seconds=20),
        worker("c", isDraining=True),
    )
    assert [state for state, _ in cells] == ["draining", cells[1][0], "draining"]
    assert cells[1][0].startswith("silent for 2")
    assert cells[2][1] == "-"


@pytest.mark.parametrize("store_ahead", [-3600.0, 3600.0])
def test_the_clock_of_this_machine_does_not_matter(lines, store_ahead):
    busy = process(1, ("email:s1:p1:7", 90))
    here = worker("a", busy, store_ahead=store_ahead, sentAtTimestampMillis=int((time.time() - 1) * 1000))
    gone = worker("b", process(2), store_ahead=store_ahead, silent_seconds=20)
    _, _, cells = lines(here, gone, store_ahead=store_ahead)
    assert cells[0] == ("up", "email:s1:p1:7 for 90.0 s")
    assert cells[1][0].startswith("silent for 2")


def test_the_longest_runs_are_named_first_and_the_others_counted(lines):
    jobs = [(f"email:s1:p1:{number}", number) for number in (5, 3, 100, 50, 7)]
    _, _, [(_, runs)] = lines(worker("a", process(1, *jobs)))
    assert [part.split()[0] for part in runs.split(", ")] == ["email:s1:p1:100", "email:s1:p1:50", "email:s1:p1:7", "2"]
    assert runs.endswith("2 more")


def test_only_the_processes_of_one_queue(lines):
    both = worker("a", process(1, queues=["email"]), process(2, queues=["reports"]))
    odd = worker("b", process(3, ("reports:s1:p1:1", 1), ("nothing", 1), queues=[]))
    _, rows, _ = lines(both, odd, worker("c", process(4)), options=("--queue", "reports"))
    assert [(row.split()[0], "idle" in row) for row in rows] == [("a", True), ("b", False)]


def test_hostile_names_steer_no_terminal(lines):
    _, rows, _ = lines(worker("a\x1b[31m", process(1, ("x\x1b[2J", 1), pool="p\n"), version="\x07"))
    assert "\x1b" not in "".join(rows)
    assert "\x07" not in "".join(rows)


def test_for_programs(tool_run, server):
    server.answer = lambda _: [
        worker("a", process(1, ("email:s1:p1:1", 1)), pid=9),
        worker("b", process(2, queues=["x"])),
    ]
    status, out, _ = tool_run("workers", "--queue", "email", "--json")
    [found] = json.loads(out)
    assert status == 0
    assert (found["id"], found["host"], found["pid"], found["is_draining"]) == ("a:1", "a", 9, False)
    assert found["processes"][0]["jobs"][0]["descriptor"] == "email:s1:p1:1"
    assert found["processes"][0]["queues"] == ["email"]


def test_all_that_a_worker_reports_has_names_for_programs(tool_run, server):
    jobs = [PinLaterUnknownJobs("email", "New", 12, 5)]
    more = {"queueLoads": [PinLaterQueueLoad("email", 500)], "jobClasses": [PinLaterJobClass("Mail", "email", 1, 3)]}
    server.answer = lambda _: [worker("a", unknownJobs=jobs, unfittingJobs=jobs, queuelessJobs=jobs, **more)]
    [found] = json.loads(tool_run("workers", "--json")[1])
    assert [found[name][0]["returned"] for name in ("unknown", "unfitting", "queueless")] == [12] * 3
    assert found["loads"][0]["target_ms"] == 500
    assert found["classes"][0]["name"] == "Mail"


def test_nobody(tool_run, server):
    server.answer = lambda _: []
    status, out, err = tool_run("workers")
    assert (status, out) == (1, "")
    assert err.startswith("no worker has reported; start one with:")
    assert tool_run("workers", "--json") == (1, "[]\n", "")
    server.answer = lambda _: [worker("a", process(1))]
    assert "no worker serves queue reports" in tool_run("workers", "--queue", "reports")[2]


def test_a_server_of_the_original(tool_run, server):
    server.answer = lambda _: "unknown"
    status, _, err = tool_run("workers")
    assert status == 69
    assert "do not store worker reports" in err


def test_classes_that_no_worker_knows_are_named(tool_run, server):
    unknown = [PinLaterUnknownJobs("email", "New\x1b", 12, int((time.time() - 5) * 1000))]
    server.answer = with_time([worker("a", process(1), unknownJobs=unknown), worker("b", unknownJobs=unknown)])
    status, _, err = tool_run("workers")
    assert status == 0
    assert err.startswith("no worker can read jobs of class New")
    assert "\x1b" not in err
    assert "in queue email: given back 24 times, the last time 5" in err
    assert tool_run("workers", "--queue", "sms")[2].count("given back") == 0
    _, out, _ = tool_run("workers", "--json")
    assert json.loads(out)[0]["unknown"][0]["returned"] == 12
