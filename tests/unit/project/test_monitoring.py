"""The alert rules, the dashboard and the table of docs/monitoring are right, and name what there is."""

import re
import subprocess

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


RULE_TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'pinlater_queue_oldest_due_age_seconds{{queue="email"}}'
        values: '0 0 660+60x20'
      - series: 'pinlater_queue_workers_needed{{queue="email", instance="a"}}'
        values: '4 4 12x30'
      - series: 'pinlater_queue_workers_needed{{queue="email", instance="b"}}'
        values: '4 4 11x30'
      - series: 'pinlater_queue_worker_slots{{queue="email"}}'
        values: '8x30'
      - series: 'pinlater_queue_workers_needed{{queue="sms"}}'
        values: '8x30'
      - series: 'pinlater_queue_worker_slots{{queue="sms"}}'
        values: '8x30'
      - series: 'pinlater_acks_failed_total{{queue="email"}}'
        values: '0+10x30'
      - series: 'pinlater_acks_succeeded_total{{queue="email"}}'
        values: '0+10x30'
      - series: 'pinlater_acks_failed_total{{queue="sms"}}'
        values: '0+1x30'
      - series: 'pinlater_acks_succeeded_total{{queue="sms"}}'
        values: '0+99x30'
      - series: 'pinlater_tls_certificate_expiry_timestamp_seconds{{instance="a"}}'
        values: '700000x90'
      - series: 'pinlater_shard_ill{{instance="a", shard="2"}}'
        values: '0 0 1x20'
      - series: 'pinlater_worker_jobs_total{{instance="b", queue="email", class="Send", ending="crashed"}}'
        values: '0x9 1x20'
      - series: 'pinlater_worker_jobs_total{{instance="b", queue="email", class="Send", ending="retried"}}'
        values: '0+9x30'
      - series: 'pinlater_worker_process_exits_total{{instance="b", pool="jobs", reason="signal"}}'
        values: '0+1x30'
      - series: 'pinlater_worker_process_exits_total{{instance="b", pool="jobs", reason="done"}}'
        values: '0+9x30'
      - series: 'pinlater_worker_acks_lost_total{{instance="b", queue="email"}}'
        values: '0x30'
      - series: 'pinlater_worker_checkpoints_lost_total{{instance="b", queue="email"}}'
        values: '0x9 1x20'
      - series: 'up{{job="pinlater-worker", instance="b"}}'
        values: '1 1 0x28'
      - series: 'pinlater_worker_jobs_total{{instance="b", queue="bills", class="Bill", ending="tick_failed"}}'
        values: '0x9 1x20'
      - series: 'pinlater_worker_jobs_total{{instance="new", queue="polls", class="Poll", ending="tick_failed"}}'
        values: '_x10 1x20'
      - series: 'pinlater_worker_jobs_total{{instance="b", queue="polls", class="Fine", ending="tick_failed"}}'
        values: '0x30'
      - series: 'pinlater_queue_oldest_due_age_seconds{{queue="held"}}'
        values: '3600+60x90'
      - series: 'pinlater_queue_paused{{queue="held"}}'
        values: '1x90'
      - series: 'pinlater_queue_paused{{queue="email"}}'
        values: '0x90'
      - series: 'pinlater_queue_backlog_jobs{{queue="held"}}'
        values: '50+10x90'
      - series: 'pinlater_queue_worker_processes{{queue="email"}}'
        values: '2 2 0x90'
      - series: 'pinlater_queue_worker_processes{{queue="held"}}'
        values: '0x90'
      - series: 'pinlater_queue_oldest_due_age_seconds{{queue="foreign"}}'
        values: '90x90'
      - series: 'pinlater_queue_worker_processes{{queue="foreign"}}'
        values: '0x90'
      - series: 'pinlater_jobs_dequeued_total{{queue="foreign"}}'
        values: '0+5x90'
      - series: 'pinlater_acks_failed_total{{queue="outage"}}'
        values: '0+1x60 60+40x60'
      - series: 'pinlater_reported_clock_ahead_seconds{{worker="web 7"}}'
        values: '_x9 -90x20 _x60'
      - series: 'pinlater_reported_clock_ahead_seconds{{worker="web 8"}}'
        values: '2x90'
      - series: 'pinlater_reported_memory_growth_bytes{{worker="web 7"}}'
        values: '100e6+10e6x90'
      - series: 'pinlater_queue_failed_jobs{{queue="email"}}'
        values: '1500x90'
      - series: 'pinlater_queue_failed_jobs{{queue="sms"}}'
        values: '900x90'
      - series: 'pinlater_jobs_given_up_total{{queue="email"}}'
        values: '0+1x90'
      - series: 'pinlater_jobs_given_up_total{{queue="sms"}}'
        values: '7x90'
      - series: 'pinlater_queue_retrying_jobs{{queue="sms"}}'
        values: '0x9 200x80'
      - series: 'pinlater_store_bytes{{instance="a", shard="1"}}'
        values: '50e9x90'
      - series: 'pinlater_store_free_bytes{{instance="a", shard="1"}}'
        values: '20e9x9 1e9x80'
      - series: 'pinlater_store_bytes{{instance="b", shard="1"}}'
        values: '1e6x90'
      - series: 'pinlater_store_free_bytes{{instance="b", shard="1"}}'
        values: '1e9-1e6x90'
      - series: 'pinlater_store_bytes{{instance="c", shard="1"}}'
        values: '1e6x90'
      - series: 'pinlater_store_free_bytes{{instance="c", shard="1"}}'
        values: '1e9x90'
    alert_rule_test:
      - eval_time: 70m
        alertname: PinLaterQueueIsPaused
        exp_alerts:
          - exp_labels: {{queue: held, severity: info}}
            exp_annotations:
              summary: "held has been paused for an hour"
              description: "Nothing is handed out. If this is not intended any more: pinlater resume held"
      - eval_time: 70m
        alertname: PinLaterFailedJobsPileUp
        exp_alerts:
          - exp_labels: {{queue: email, severity: ticket}}
            exp_annotations:
              summary: "email: 1.5k jobs are failed"
              description: "pinlater retry-failed retries them; otherwise they are deleted in the end."
      - eval_time: 70m
        alertname: PinLaterJobsGivenUp
        exp_alerts:
          - exp_labels: {{queue: email, severity: ticket}}
            exp_annotations:
              summary: "email: 60 jobs were given up within an hour"
              description: "pinlater scan email --state failed shows why. They are not retried automatically."
      - {{eval_time: 30m, alertname: PinLaterJobsRetry}}
      - eval_time: 45m
        alertname: PinLaterJobsRetry
        exp_alerts:
          - exp_labels: {{queue: sms, severity: ticket}}
            exp_annotations:
              summary: "sms: 200 jobs have failed and wait for another attempt"
              description: "A service that they need may be down. pinlater scan sms --retrying shows their last errors."
      - {{eval_time: 9m, alertname: PinLaterStoreIsNearlyFull}}
      - eval_time: 12m
        alertname: PinLaterStoreIsNearlyFull
        exp_alerts:
          - exp_labels: {{instance: a, shard: "1", severity: page}}
            exp_annotations:
              summary: "a: 953.7MiB are free for shard 1 of the store"
              description: "When it is full, no job is stored. Free space on the disk, or raise the maxmemory of Redis."
      - eval_time: 62m
        alertname: PinLaterStoreFillsUp
        exp_alerts:
          - exp_labels: {{instance: b, shard: "1", severity: ticket}}
            exp_annotations:
              summary: "b: shard 1 of the store will be full within a day at the current rate"
              description: "Check whether the store grows (pinlater_store_bytes), or something else on its disk."
      - {{eval_time: 9m, alertname: PinLaterPeriodicJobFails}}
      - eval_time: 12m
        alertname: PinLaterPeriodicJobFails
        exp_alerts:
          - exp_labels: {{queue: bills, class: Bill, severity: ticket}}
            exp_annotations:
              summary: "bills: the periodic job Bill has failed, with all attempts of its run"
              description: "It runs again at its next tick. The page Failing and pinlater periodic show the error."
          - exp_labels: {{queue: polls, class: Poll, severity: ticket}}
            exp_annotations:
              summary: "polls: the periodic job Poll has failed, with all attempts of its run"
              description: "It runs again at its next tick. The page Failing and pinlater periodic show the error."
      - {{eval_time: 1m, alertname: PinLaterShardIsIll}}
      - eval_time: 5m
        alertname: PinLaterShardIsIll
        exp_alerts:
          - exp_labels: {{instance: a, shard: "2", severity: page}}
            exp_annotations:
              summary: "a: shard 2 does not answer"
              description: "Its jobs wait until it does; other shards keep working. See the page Server and the log."
      - {{eval_time: 3m, alertname: PinLaterJobsWaitLong}}
      - eval_time: 8m
        alertname: PinLaterJobsWaitLong
        exp_alerts:
          - exp_labels: {{queue: email, severity: page}}
            exp_annotations:
              summary: "email: the oldest due job has waited for 17m 0s"
              description: "No worker takes it: see pinlater top and pinlater limit"
      - {{eval_time: 2m, alertname: PinLaterNoWorker}}
      - eval_time: 4m
        alertname: PinLaterNoWorker
        exp_alerts:
          - exp_labels: {{queue: email, severity: page}}
            exp_annotations:
              summary: "email: jobs have waited for 13m 0s, and no worker serves the queue"
              description: "Start workers for it, or look why they end: pinlater workers, and the logs of the workers."
      - {{eval_time: 60m, alertname: PinLaterJobsFailMoreThanBefore}}
      - eval_time: 72m
        alertname: PinLaterJobsFailMoreThanBefore
        exp_alerts:
          - exp_labels: {{queue: outage, severity: ticket}}
            exp_annotations:
              summary: "outage: 0.67 attempts fail per second, more than five times as many as before"
              description: "The page Failing shows which errors are new. Was something deployed, or is a service down?"
      - {{eval_time: 10m, alertname: PinLaterPausedQueueGrows}}
      - eval_time: 40m
        alertname: PinLaterPausedQueueGrows
        exp_alerts:
          - exp_labels: {{queue: held, severity: ticket}}
            exp_annotations:
              summary: "held is paused, and 450 jobs wait"
              description: "Their number grows. If this is not intended any more: pinlater resume held"
      - eval_time: 12m
        alertname: PinLaterClockIsOff
        exp_alerts:
          - exp_labels: {{worker: web 7, severity: ticket}}
            exp_annotations:
              summary: "web 7: the clock of the worker is off by 1m 30s"
              description: "Jobs that it enqueues for later run at the wrong time. Does NTP run there?"
      - {{eval_time: 40m, alertname: PinLaterClockIsOff}}
      - {{eval_time: 20m, alertname: PinLaterWorkerMemoryGrows}}
      - eval_time: 60m
        alertname: PinLaterWorkerMemoryGrows
        exp_alerts:
          - exp_labels: {{worker: web 7, severity: ticket}}
            exp_annotations:
              summary: "web 7: a job process has grown by 667.6MiB since its first job"
              description: "Its jobs may leak memory. --max-memory or --max-jobs replace processes in time."
      - {{eval_time: 16m, alertname: PinLaterTooFewWorkers}}
      - eval_time: 18m
        alertname: PinLaterTooFewWorkers
        exp_alerts:
          - exp_labels: {{queue: email, severity: ticket}}
            exp_annotations:
              summary: "email: jobs need 12 worker slots to start in time, and there are fewer"
              description: "Start more workers, or check why the autoscaler does not."
      - eval_time: 25m
        alertname: PinLaterJobsFail
        exp_alerts:
          - exp_labels: {{queue: email, severity: ticket}}
            exp_annotations:
              summary: "email: 50% of the attempts fail"
              description: "pinlater scan email --state failed shows why."
      - {{eval_time: 50m, alertname: PinLaterCertificateEnds}}
      - {{eval_time: 9m, alertname: PinLaterJobsCrash}}
      - eval_time: 12m
        alertname: PinLaterJobsCrash
        exp_alerts:
          - exp_labels: {{queue: email, class: Send, severity: ticket}}
            exp_annotations:
              summary: "email: processes die while they run Send"
              description: "By a signal, or for lack of memory: the worker's log has each crash."
      - eval_time: 12m
        alertname: PinLaterProcessesDie
        exp_alerts:
          - exp_labels: {{instance: b, pool: jobs, reason: signal, severity: ticket}}
            exp_annotations:
              summary: "b: processes of pool jobs end unexpectedly: signal"
              description: "The worker's log has each exit, with the running job and the memory."
      - {{eval_time: 3m, alertname: PinLaterWorkIsLost}}
      - eval_time: 12m
        alertname: PinLaterWorkIsLost
        exp_alerts:
          - exp_labels: {{instance: b, queue: email, severity: ticket}}
            exp_annotations:
              summary: "b: acks or checkpoints of jobs of email reached no server"
              description: "Finished jobs run again, or restart from an older checkpoint. Were the servers down?"
      - {{eval_time: 4m, alertname: PinLaterWorkerDown}}
      - eval_time: 12m
        alertname: PinLaterWorkerDown
        exp_alerts:
          - exp_labels: {{instance: b, job: pinlater-worker, severity: ticket}}
            exp_annotations:
              summary: "b: the worker does not answer"
              description: "Its jobs go to other workers. See its log, and pinlater workers."
"""


def test_the_rules_fire_when_they_should(tmp_path):
    file = tmp_path / "tests.yml"
    file.write_text(RULE_TESTS.format(rules=FOLDER / "alerts.yml"))
    tested = promtool("test", "rules", str(file))
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
