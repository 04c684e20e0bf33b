"""Benchmarks of the servers of stores, of fleets and shards: they run, and find what they look for."""

import json
import os

import pytest

from benchmarks.activity import can_count_calls
from benchmarks.marked_server import TARGETS
from benchmarks.marks import missing
from benchmarks.one_call_stages import CLIENT_TARGETS
from tests.system.benchmark_program import OF_STORES_WITH_SERVERS, run_benchmarks, skip_without_server_of

MOST_OF_ONE_CALL = {
    # What an enqueue of one job costs: statements, hand-overs between threads, round trips, system calls of the server.
    # Counts hardly drift; who saves some lowers them here, who needs more has to say why. On a slow disk, SQLite's
    # transactions go to a thread; on a fast one, they take no hand-over.
    "sqlite": {"statements": 4, "hand_overs_between_threads": 2, "system_calls_of_the_server": 28},
    "redis": {
        "statements": 9,
        "hand_overs_between_threads": 0,
        "round_trips_to_the_database": 1,
        "system_calls_of_the_server": 7,
    },
    "mysql": {
        "statements": 4,
        "hand_overs_between_threads": 0,
        "round_trips_to_the_database": 1,
        "system_calls_of_the_server": 21,
    },
}
BACKGROUND_SHARE = 1.3
"""What the server does besides, as far as it does not do the same when it is idle."""


def test_what_needs_the_server_of_a_store_measures_nothing_without_one(tmp_path):
    done = run_benchmarks(*OF_STORES_WITH_SERVERS, "--json", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"] == []


@pytest.mark.parametrize("store", MOST_OF_ONE_CALL)
def test_one_enqueue_takes_no_more_steps_than_it_has_to(store, tmp_path):
    skip_without_server_of(store)
    if not can_count_calls():
        pytest.skip("no strace that may attach to processes")
    done = run_benchmarks("one_call", "--json", "--store", store, tmp_path=tmp_path, scale="0.04")
    assert done.returncode == 0, done.stderr
    figures = {figure["name"]: figure["value"] for figure in json.loads(done.stdout)["figures"]}
    found = {name: figures[f"one_call_{name}_hot"] for name in MOST_OF_ONE_CALL[store]}
    too_many = {
        name: count for name, count in found.items() if count > MOST_OF_ONE_CALL[store][name] * BACKGROUND_SHARE
    }
    assert not too_many, f"more than {MOST_OF_ONE_CALL[store]}"
    for stage in ("client_encode", "server_decode", "server_encode", "client_decode"):
        assert figures[f"one_call_{stage}_hot_wall"] > 0, f"{stage} is not marked any more"


def test_all_functions_that_one_call_marks_are_still_there():
    assert missing([*TARGETS, *CLIENT_TARGETS]) == []


def measured_on_redis(name, tmp_path):
    """Run a benchmark; return its figures by name."""
    done = run_benchmarks(name, "--json", "--store", "redis", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    return {figure["name"]: figure["value"] for figure in json.loads(done.stdout)["figures"]}


def test_several_servers_are_measured_on_a_store_that_they_share(tmp_path):
    skip_without_server_of("redis")
    figures = measured_on_redis("servers", tmp_path)
    assert figures.keys() == {f"servers_{count}_{what}" for count in (1, 2, 4) for what in ("enqueue", "drain")}


def test_what_idle_queues_cost_is_measured_on_a_store_that_servers_share(tmp_path):
    skip_without_server_of("redis")
    figures = measured_on_redis("idle_fleet", tmp_path)
    assert figures.keys() == {"idle_statements", "idle_cpu"}
    assert figures["idle_statements"] > 0


def test_a_fleet_is_measured_beside_one_server(tmp_path):
    skip_without_server_of("redis")
    figures = measured_on_redis("fleet_drain", tmp_path)
    whats = ("drain", "least_cpu", "most_cpu")
    hows = ["", "first_"] if os.geteuid() == 0 else [""]
    assert figures.keys() == {f"fleet_{count}_{how}{what}" for count in (1, 5) for how in hows for what in whats}


def test_one_job_on_many_shards_is_measured_beside_one_on_one_shard(tmp_path):
    skip_without_server_of("redis")
    figures = measured_on_redis("many_shards", tmp_path)
    stores = ("shards1", "shards12", "shards12_used1")
    assert figures.keys() == {
        *(f"{store}_{where}_{what}" for store in stores for where in ("here", "there")
          for what in ("p50", "p99", "statements")),
        *(f"{store}_{what}_statements" for store in stores for what in ("batch", "poll")),
    }  # fmt: skip


def test_a_queue_that_uses_as_many_shards_as_it_needs_is_measured_beside_others(tmp_path):
    skip_without_server_of("redis")
    figures = measured_on_redis("queue_shards", tmp_path)
    numbers = ("all", "one", "auto")
    assert figures.keys() == {f"queue_shards_{name}{what}" for name in numbers for what in ("", "_used")}
    assert (figures["queue_shards_all_used"], figures["queue_shards_one_used"]) == (12, 1)


@pytest.mark.parametrize(("store", "name"), [("mysql", "worker_drain"), ("redis", "worker_drain"), ("redis", "depth")])
def test_shared_stores_are_measured_beside_their_drivers(store, name, tmp_path):
    skip_without_server_of(store)
    done = run_benchmarks(name, "--json", "--store", store, tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["store"] == store
    assert document["figures"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["mysql", "redis"])
def test_a_database_that_dies_hangs_and_comes_back_costs_no_job(store, tmp_path):
    skip_without_server_of(store)
    done = run_benchmarks("outages", "--json", "--store", store, tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = {figure["name"]: figure["value"] for figure in json.loads(done.stdout)["figures"]}
    for trouble in ("killed", "held", "dead"):
        assert figures[f"{trouble}_confirmed"] > 0
        assert figures[f"{trouble}_lost"] == 0
        assert figures[f"{trouble}_call_longest"] < 15
        assert figures[f"{trouble}_wait_longest"] < 30
