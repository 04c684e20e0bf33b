"""The alert rules, the dashboard and the table of docs/monitoring are right, and name what there is."""

import subprocess

import pytest

from pinlater.server.metrics import Metrics, render_prometheus
from pinlater.server.metrics.families import Gauge
from tests.support.monitoring import FOLDER, dashboard, dashboard_queries, metrics_in, metrics_on, program


@pytest.fixture(scope="module")
def known():
    metrics = Metrics()
    for family in metrics._families:
        if isinstance(family, Gauge):
            family.source = lambda: 1
    return metrics_on(render_prometheus(metrics.snapshot(), [1]))


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
        "pinlater_jobs_dequeued_total",
        "pinlater_retries_dequeued_total",
        "pinlater_timeouts_retried_total",
        "pinlater_stale_acks_total",
        "pinlater_empty_dequeues_total",
        "pinlater_commit_requests",
        "pinlater_commit_seconds",
        "pinlater_store_seconds",
    }


def test_panels_have_titles_units_descriptions_and_places_of_their_own():
    panels = dashboard()["panels"]
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels)


def promtool(*arguments, **options):
    return subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, timeout=50, check=False, **options
    )


def test_the_rules_and_the_configuration_are_valid():
    checked = promtool("check", "config", str(FOLDER / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "13 rules found" in checked.stdout


RULE_TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'pinlater_queue_oldest_due_age_seconds{{queue="email"}}'
        values: '0 0 660+60x20'
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
    alert_rule_test:
      - {{eval_time: 1m, alertname: PinLaterShardIsIll}}
      - eval_time: 5m
        alertname: PinLaterShardIsIll
        exp_alerts:
          - exp_labels: {{instance: a, shard: "2", severity: page}}
            exp_annotations:
              summary: "a: shard 2 does not answer"
              description: "Its jobs wait until it does; the others go on. The page Server and the log have the reason."
      - {{eval_time: 3m, alertname: PinLaterJobsWaitLong}}
      - eval_time: 8m
        alertname: PinLaterJobsWaitLong
        exp_alerts:
          - exp_labels: {{queue: email, severity: page}}
            exp_annotations:
              summary: "email: the oldest due job has waited for 17m 0s"
              description: "No worker takes it: see pinlater top and pinlater limit"
      - eval_time: 25m
        alertname: PinLaterJobsFail
        exp_alerts:
          - exp_labels: {{queue: email, severity: ticket}}
            exp_annotations:
              summary: "email: 50% of the attempts fail"
              description: "pinlater scan email --state failed shows why."
      - {{eval_time: 50m, alertname: PinLaterCertificateEnds}}
"""


def test_the_rules_fire_when_they_should(tmp_path):
    file = tmp_path / "tests.yml"
    file.write_text(RULE_TESTS.format(rules=FOLDER / "alerts.yml"))
    tested = promtool("test", "rules", str(file))
    assert tested.returncode == 0, tested.stdout + tested.stderr
