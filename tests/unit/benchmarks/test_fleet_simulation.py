"""The laws that the simulated fleet obeys; what it computes from measured figures is no more than arithmetic."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.fleet import costs, known, priorities
from benchmarks.fleet.costs import HOP_SECONDS, ROUND_TRIP_SECONDS
from benchmarks.fleet.load import SECONDS_A_DAY, Load
from benchmarks.fleet.shard import READ_STATEMENTS
from benchmarks.fleet.simulation import MODELS, simulate
from benchmarks.fleet_simulation import main
from pinlater.server.backends.poll_intervals import FREQUENT_POLLS
from pinlater.server.broker import polling
from pinlater.server.peer_processes import notification_batch

ROOT = Path(__file__).parents[3]
SMALL = Load(queues=30, jobs_a_day=200 * SECONDS_A_DAY, shards=4, servers=3, workers=20)
IDLE = replace(SMALL, jobs_a_day=0)
LEAGUE_COLUMNS = {
    "calls/s": 3,
    "server µs": 4,
    "producer µs": 5,
    "calls/s of 32": 7,
    "job server µs": 13,
    "workers µs": 14,
}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr("benchmarks.fleet.load._LONGEST_SECONDS", 2.0)


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_result_and_another_seed_another(model):
    assert simulate(SMALL, model) == simulate(SMALL, model)
    assert simulate(SMALL, model) != simulate(replace(SMALL, seed=2), model)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "load",
    [
        SMALL,
        replace(SMALL, servers=1, shards=1),
        replace(SMALL, queues=1, workers=1),
        replace(SMALL, queues=2, workers=50, servers=7, shards=9),
        replace(SMALL, jobs_a_day=3000 * SECONDS_A_DAY),
    ],
    ids=["small", "alone", "one worker", "more servers than queues", "busy"],
)
def test_no_job_is_lost_and_none_is_claimed_twice(model, load):
    outcome = simulate(load, model)
    assert outcome.stored > 0.8 * load.jobs_a_second * outcome.seconds
    assert outcome.claimed == outcome.stored
    assert outcome.claimed_twice == 0


def test_all_models_get_the_same_jobs():
    assert len({simulate(SMALL, model).stored for model in MODELS}) == 1


def at_shards(model, shards):
    return simulate(replace(SMALL, shards=shards), model).statements_a_job


def test_with_scans_more_shards_cost_more_statements_and_where_jobs_are_known_they_do_not():
    assert at_shards("scan", 16) > 2.5 * at_shards("scan", 4)
    assert at_shards("priorities", 16) > 1.5 * at_shards("priorities", 4)
    looks_a_job = SMALL.servers * (16 - 4) * READ_STATEMENTS / known.LOOK_SECONDS / SMALL.jobs_a_second
    for model in ("known", "homes"):
        assert at_shards(model, 16) < 1.1 * at_shards(model, 4) + looks_a_job


@pytest.mark.parametrize("model", ["known", "homes"])
@pytest.mark.parametrize("queues", [30, 300])
def test_without_jobs_servers_that_know_make_nothing_but_looks(model, queues):
    outcome = simulate(replace(IDLE, queues=queues), model)
    looks = IDLE.servers * READ_STATEMENTS / known.LOOK_SECONDS
    assert outcome.statements_a_second == pytest.approx(looks, rel=0.3)  # of a few seconds
    assert outcome.cores.workers == 0
    assert outcome.messages_a_second == 0


def test_without_jobs_scans_cost_statements_for_each_queue_and_polls_do_not():
    for model, grows in (("scan", True), ("priorities", False)):
        few, many = (simulate(replace(IDLE, queues=queues), model).statements_a_second for queues in (30, 120))
        assert (many > 2 * few) == grows, model


def test_a_scan_of_an_idle_fleet_finds_nothing_and_one_that_knows_asks_nothing():
    assert simulate(IDLE, "scan").found_nothing == 1
    assert simulate(IDLE, "known").found_nothing == 0


def test_with_one_reader_for_each_queue_fewer_statements_are_in_vain():
    many_servers = replace(SMALL, servers=8, jobs_a_day=1000 * SECONDS_A_DAY)
    assert simulate(many_servers, "homes").statements_a_job < simulate(many_servers, "known").statements_a_job


def test_a_shard_that_has_too_much_to_do_shows_it():
    alone = replace(SMALL, shards=1, workers=400)
    assert simulate(alone, "known").busiest_shard < 0.5
    assert simulate(replace(alone, jobs_a_day=10_000 * SECONDS_A_DAY), "known").busiest_shard > 1


def test_waits_are_short_where_new_jobs_are_announced_and_those_of_polling_workers_are_not():
    quiet = replace(SMALL, jobs_a_day=20 * SECONDS_A_DAY)
    waits = {model: simulate(quiet, model).wait_ms[50] for model in MODELS}
    assert waits["known"] < 10
    assert waits["homes"] < 20
    assert waits["scan"] > 10 * waits["known"]


@pytest.mark.parametrize("model", ["priorities", "known", "homes"])
def test_a_worker_at_another_server_has_a_job_as_soon_as_it_is_announced(model):
    elsewhere = Load(queues=1, jobs_a_day=3 * SECONDS_A_DAY, shards=2, servers=9, workers=1)
    assert simulate(elsewhere, model).wait_ms[50] < 1000 * (ROUND_TRIP_SECONDS + HOP_SECONDS) + 5


@pytest.mark.parametrize("workers", [1, 7, 40, 900])
def test_every_queue_has_a_worker_and_every_worker_a_queue(workers):
    load = Load(queues=100, workers=workers)
    served = load.queues_of_workers()
    assert len(served) == workers
    assert all(served)
    assert {queue for queues in served for queue in queues} == set(range(100))
    assert sum(load.shares()) == pytest.approx(1)


def test_most_queues_are_nearly_idle():
    shares = Load().shares()
    assert shares[0] > 0.5
    assert sum(shares[250:]) < 0.005


def test_processors_follow_from_what_happens():
    cores = costs.cores_of(statements=1e6, jobs=0, calls=0, passed_on=0)
    assert cores.shards == pytest.approx(costs.STATEMENT_DATABASE_US)
    assert cores.servers == pytest.approx(costs.STATEMENT_SERVER_US)
    assert cores.workers == 0
    whole = costs.cores_of(statements=costs.CALL_STATEMENTS * costs.CALLS_A_SECOND_OF_32, jobs=0, calls=0, passed_on=0)
    assert whole.shards + whole.servers == pytest.approx(costs.CORES)


def test_costs_are_those_that_the_page_on_performance_has():
    rows = {
        store: [cell.strip().replace(",", "") for cell in line.split("|")[1:-1]]
        for store in ("SQLite", "MariaDB")
        for line in re.findall(
            rf"^\| PinLater, {store} .*$", (ROOT / "docs" / "performance.md").read_text(), re.MULTILINE
        )
    }
    mysql, sqlite = (
        {name: float(rows[store][at]) for name, at in LEAGUE_COLUMNS.items()} for store in ("MariaDB", "SQLite")
    )
    assert mysql["calls/s of 32"] == costs.CALLS_A_SECOND_OF_32
    assert mysql["calls/s"] == costs.CALLS_A_SECOND
    assert mysql["producer µs"] == costs.CALL_CLIENT_US
    assert mysql["workers µs"] == costs.JOB_WORKER_US
    for store, row in (("MariaDB", mysql), ("SQLite", sqlite)):
        assert row["server µs"] == costs.CALL_SERVER_US[store]
        assert row["job server µs"] == costs.JOB_SERVER_US[store]


@pytest.mark.parametrize("model", ["known", "homes"])
def test_the_page_has_what_the_simulation_finds(model, monkeypatch):
    monkeypatch.undo()  # no short runs
    outcome = simulate(Load(), model)
    page = (ROOT / "docs" / "guides" / "capacity.md").read_text()
    table = page.split("\n500 queues, a billion jobs a day, ")[1]
    [row] = re.findall(rf"^\| `{model}` \| (\d.*) \|$", table.split("\n\n")[1], re.MULTILINE)
    assert [float(cell.strip("% ").replace(",", "")) for cell in row.split("|")] == pytest.approx(
        [
            outcome.statements_a_job,
            outcome.found_nothing * 100,
            outcome.statements_a_second,
            outcome.busiest_shard * 100,
            *outcome.wait_ms.values(),
            *outcome.cores,
        ],
        rel=0.05,
    )


def test_servers_of_the_model_do_what_servers_do():
    assert FREQUENT_POLLS[:2] == (priorities.SHORTEST_POLL_SECONDS, priorities.LONGEST_POLL_SECONDS)
    assert (priorities.POLL_GROWTH, priorities.EARLIEST_SHARE) == (polling._GROWTH, polling._EARLIEST)
    assert notification_batch.BATCH_SECONDS == 0.005


def run(*arguments):
    done = CliRunner().invoke(main, ["--queues", "20", "--jobs-a-day", "8640000", "--workers", "8", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_table_has_a_row_for_each_model():
    description, _, headings, *rows = run("--shards", "3", "--servers", "2").splitlines()
    assert description.startswith("20 queues, 8,640,000 jobs a day (100 a second; ")
    assert headings.split()[:2] == ["model", "statements/job"]
    assert [row.split()[0] for row in rows] == list(MODELS)
    assert {len(row.split()) for row in rows} == {10}


def test_json_has_what_was_asked_and_everything_that_was_found():
    document = json.loads(run("--seed", "7", "--json"))
    assert document["load"]["seed"] == 7
    assert document["models"].keys() == MODELS.keys()
    for outcome in document["models"].values():
        assert outcome["claimed"] == outcome["stored"] > 0
        assert outcome["cores"].keys() == {"shards", "servers", "workers"}
        assert outcome["wait_ms"].keys() == {"50", "99"}


def test_a_fleet_without_jobs_has_a_table_too():
    *_, row = CliRunner().invoke(main, ["--jobs-a-day", "0", "--workers", "4", "--queues", "9"]).stdout.splitlines()
    assert row.split() == ["homes", "0.0", "6.0", "0.0", "0.00", "0.00", "0.00"]
