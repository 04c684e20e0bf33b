"""The alert rules, the dashboard and the table of docs/monitoring are right, and name what there is."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pinlater.server.config.settings import DECLARATIONS
from pinlater.server.metrics import Metrics, render_prometheus
from pinlater.server.metrics.families import Gauge
from pinlater.worker.metrics import WorkerMetrics
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared
from tests.support.grafana_board import board_problems
from tests.support.monitoring import FOLDER, board, dashboard_queries, metrics_in, metrics_on, panels, program, rows


@pytest.fixture(scope="module")
def known():
    metrics = Metrics()
    for family in metrics._families:
        if isinstance(family, Gauge):
            family.source = lambda: 1
    of_worker = WorkerMetrics(Shared.for_pools([JobPool()])).page().decode()
    return metrics_on(render_prometheus(metrics.snapshot(), [1])) | metrics_on(of_worker)


@pytest.mark.parametrize("name", ["alerts.yml", "dashboard.json", "README.md"])
def test_every_metric_that_is_named_exists(known, name):
    named = metrics_in((FOLDER / name).read_text())
    assert len(named) > 10
    assert named - known == set()


def test_the_names_are_found():
    assert metrics_in("rate(pinlater_x_seconds_bucket[5m]) / pinlater_y_total") == {
        "pinlater_x_seconds",
        "pinlater_y_total",
    }


def test_the_dashboard_has_all_that_an_operator_asks_for():
    named = metrics_in("\n".join(dashboard_queries()))
    assert named >= {
        "pinlater_queue_oldest_due_age_seconds",
        "pinlater_queue_backlog_jobs",
        "pinlater_queue_completions_per_second",
        "pinlater_queue_running_jobs",
        "pinlater_queue_scheduled_jobs",
        "pinlater_queue_retrying_jobs",
        "pinlater_queue_failed_jobs",
        "pinlater_queue_paused",
        "pinlater_jobs_given_up_total",
        "pinlater_store_bytes",
        "pinlater_store_free_bytes",
        "pinlater_jobs_dequeued_total",
        "pinlater_retries_dequeued_total",
        "pinlater_timeouts_retried_total",
        "pinlater_stale_acks_total",
        "pinlater_empty_dequeues_total",
        "pinlater_commit_requests",
        "pinlater_commit_seconds",
        "pinlater_store_seconds",
        "pinlater_queue_worker_processes",
        "pinlater_reported_clock_ahead_seconds",
        "pinlater_reported_memory_growth_bytes",
        "pinlater_shard_ill",
        "pinlater_worker_jobs_total",
        "pinlater_worker_job_seconds",
        "pinlater_worker_jobs_running",
        "pinlater_worker_process_exits_total",
        "pinlater_worker_checkpoints_lost_total",
        "pinlater_worker_jobs_returned_total",
        "pinlater_worker_acks_lost_total",
    }


def test_panels_have_titles_units_descriptions_and_places_of_their_own():
    everything = panels() + rows()
    assert len({one["title"] for one in everything}) == len({one["id"] for one in everything}) == len(everything)
    taken = [spot for one in everything for spot in spots(one["gridPos"])]
    assert len(set(taken)) == len(taken)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels())


def spots(place):
    """Return the squares of the grid that something covers."""
    columns, lines = (range(place[start], place[start] + place[size]) for start, size in (("x", "w"), ("y", "h")))
    return [(column, line) for column in columns for line in lines]


def promtool(*arguments, **options):
    return subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, timeout=50, check=False, **options
    )


def test_the_rules_and_the_configuration_are_valid():
    checked = promtool("check", "config", str(FOLDER / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "35 rules found" in checked.stdout


def test_the_rules_fire_when_they_should():
    tested = promtool("test", "rules", str(Path(__file__).with_name("alert_tests.yml")))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_table_of_thresholds_has_all_settings_and_the_rules_as_they_are():
    lines = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("| `WARN_")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    defaults = {declared.key: declared.default for declared in DECLARATIONS if declared.key.startswith("WARN_")}
    assert {cell[0].strip("`"): cell[1] for cell in cells} == defaults
    expressions = {rule["alert"]: rule["expr"] for rule in alert_rules()}
    for _, _, named, threshold in cells:
        for rule in re.findall(r"`(\w+)`", named):
            numbers = re.findall(r"[\d.]+e?\d*", threshold)
            assert any(number in expressions[rule] for number in numbers), (rule, threshold)


def alert_rules():
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


# The board, by a schema of Grafana's boards


def test_grafana_takes_the_board(known):
    assert board_problems(board(), known) == []


def first_panel(one):
    return next(panel for panel in one["panels"] if panel["type"] != "row")


FAULTS = {
    "'graf' is not": lambda one: first_panel(one).update(type="graf"),
    "'uid' is a required property": lambda one: first_panel(one)["datasource"].pop("uid"),
    "'${datasource}' was expected": lambda one: first_panel(one)["datasource"].update(uid="${source}"),
    "no variable chooses a Prometheus": lambda one: one["templating"]["list"].pop(0),
    "there is no variable $queue": lambda one: one["templating"]["list"].pop(),
    "nobody exports pinlater_x": lambda one: first_panel(one)["targets"][0].update(expr="pinlater_x"),
    "'exprs' was unexpected": lambda one: first_panel(one)["targets"][0].update(exprs="1"),
    "'seconds' is not one of": lambda one: first_panel(one)["fieldConfig"]["defaults"].update(unit="seconds"),
    "'showLegend' is a required property": lambda one: first_panel(one)["options"]["legend"].pop("showLegend"),
    "several panels have the id": lambda one: first_panel(one).update(id=1),
    "have the same refId": lambda one: first_panel(one)["targets"].extend(first_panel(one)["targets"]),
    "is wider than the board": lambda one: first_panel(one)["gridPos"].update(x=20),
}


@pytest.mark.parametrize("words", FAULTS)
def test_a_board_that_grafana_cannot_use_is_found(known, words):
    broken = board()
    FAULTS[words](broken)
    assert words in "\n".join(board_problems(broken, known))
