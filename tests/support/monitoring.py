"""What stands in docs/monitoring: its queries, and the metrics that they name."""

import json
import re
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
_NAME = re.compile(r"\b(?:pinlater|process)_[a-z_]+\b")
_PARTS = re.compile(r"_(bucket|sum|count)$")


def program(name):
    """Return the path of a program of Debian's package prometheus."""
    path = shutil.which(name)
    if path is None:
        pytest.skip("Prometheus is not installed (Debian: apt-get install prometheus)")
    return path


def board():
    """Return the dashboard."""
    return json.loads((FOLDER / "dashboard.json").read_text())


def _everything():
    return board()["panels"]


def rows():
    """Return the headings between the panels of the dashboard."""
    return [one for one in _everything() if one["type"] == "row"]


def panels():
    """Return the panels of the dashboard."""
    return [one for one in _everything() if one["type"] != "row"]


def dashboard_queries():
    """Return the queries of all panels, with their variables filled in as Grafana does."""
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    values = {"$job": "pinlater", "$workers": "pinlater-worker", "$queue": ".*", "$__rate_interval": "30s"}
    for name, value in values.items():
        queries = [query.replace(name, value) for query in queries]
    return queries


def metrics_in(text):
    """Return the names of the metrics that a text names; of histograms without the part."""
    return {_PARTS.sub("", name) for name in _NAME.findall(text)}


def metrics_on(page):
    """Return the names of the metrics of a page of /metrics."""
    return set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))
