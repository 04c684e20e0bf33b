"""Benchmarks: they run, and find figures."""

import json
import os
import subprocess
import sys
from contextlib import closing

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.peers.report import BEGIN, END
from benchmarks.setting import Setting
from benchmarks.stores import KINDS, make_stores
from benchmarks.waiting import QUEUE, FilledStore
from pinlater import JobState
from pinlater.client import NewJob
from pinlater.model.messages import Message
from tests.system.benchmark_program import OF_STORES_WITH_SERVERS, ROOT, run_benchmarks, skip_without_server_of

WITH_TESTS_OF_THEIR_OWN = (*OF_STORES_WITH_SERVERS, "one_call", "bulk_enqueue")
OTHERS = sorted(BENCHMARKS.keys() - {*WITH_TESTS_OF_THEIR_OWN})
JUST_COPIED = 1001
"""The fewest jobs that wait of which one is a copy of another."""


@pytest.mark.parametrize("name", OTHERS)
def test_each_benchmark_finds_figures(name, tmp_path):
    done = run_benchmarks(name, "--json", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert len({figure["name"] for figure in figures}) == len(figures) > 0
    for figure in figures:
        assert len(figure["rounds"]) >= 1
        assert all(number >= 0 for number in figure["rounds"]), figure


def test_figures_beside_jobs_that_wait_stand_beside_those_without(tmp_path):
    done = run_benchmarks("single_enqueue", "--waiting", str(JUST_COPIED), "--json", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert figures
    assert all(len(figure["rounds"]) == len(figure["bare_rounds"]) == 1 for figure in figures)


@pytest.mark.parametrize("store", KINDS)
def test_jobs_that_wait_beside_a_measurement_are_as_good_as_those_that_a_worker_gave_back(store, tmp_path):
    skip_without_server_of(store)
    filled = FilledStore(tmp_path / "filled", JUST_COPIED)
    with closing(make_stores(store)) as stores:
        setting = Setting(tmp_path, 1.0, stores, 1, filled)
        with setting.server() as server, server.client() as client:
            server.await_answer()
            waiting = [job.descriptor for job in client.scan_all(QUEUE, JobState.PENDING, future=True)]
            assert len(waiting) == JUST_COPIED
            woken = {waiting[0], waiting[-1]}
            for descriptor in woken:
                assert client.send_message(descriptor, Message("event/approval", "1", b""))
            [new] = client.enqueue_jobs(QUEUE, [NewJob(b"{}")])
            assert {job.descriptor for job in client.dequeue_jobs(QUEUE, 10)} == {*woken, new}


def test_the_table_shows_figures_beside_the_bare_loop_and_leaves_nothing_behind(tmp_path):
    done = run_benchmarks("bulk_enqueue", tmp_path=tmp_path, rounds=2)
    assert done.returncode == 0, done.stderr
    _, table = done.stdout.split("unit", 1)
    heading, first, *_ = table.splitlines()
    assert heading.split() == ["PinLater", "bare", "sqlite3", "ratio"]
    *_, ours, bare, ratio = [float(cell.replace(",", "")) for cell in first.split()[-3:]]
    assert ratio == pytest.approx(ours / bare, abs=0.01)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.timeout(240)
def test_pinlater_plays_in_the_league_of_queues(tmp_path):
    page, svg = tmp_path / "page.md", tmp_path / "rates.svg"
    page.write_text(f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n")
    (tmp_path / "stores").mkdir()
    arguments = ["--scale", "0.01", "--rounds", "1", "--folder", str(tmp_path / "stores"), "--json"]
    arguments += ["--page", str(page), "--svg", str(svg)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", "pinlater-sqlite", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    contestants = json.loads(done.stdout)["contestants"]
    assert contestants.keys() == {"pinlater-sqlite"}
    for [figures] in contestants.values():
        assert all(number > 0 if name.endswith("_a_second") else number >= 0 for name, number in figures.items()), (
            figures
        )
    words = page.read_text()
    assert words.startswith("before")
    assert words.endswith("after\n")
    assert "old" not in words
    assert words.count("| PinLater, ") == 1
    assert svg.read_text().count("<rect") == 3
    assert list((tmp_path / "stores").iterdir()) == []
