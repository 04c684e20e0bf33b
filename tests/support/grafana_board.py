"""Checks of a board for Grafana: its form, and what it refers to."""

import json
import re
from collections import Counter
from pathlib import Path

from jsonschema import Draft202012Validator

from tests.support.monitoring import metrics_in

SCHEMA = json.loads((Path(__file__).parents[1] / "unit" / "project" / "grafana_schema.json").read_text())
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_BUILT_IN = re.compile(r"__")


def board_problems(board, metrics):
    """Return what is wrong with a board, in words; ``metrics`` are the names of all that there are."""
    form = [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
        for error in Draft202012Validator(SCHEMA).iter_errors(board)
    ]
    return form or [*_unknown_variables(board), *_unknown_metrics(board, metrics), *_repeated(board)]


def _unknown_variables(board):
    variables = {one["name"]: one for one in board["templating"]["list"]}
    source = variables.get("datasource")
    if source is None or (source["type"], source["query"]) != ("datasource", "prometheus"):
        yield "no variable chooses a Prometheus as ${datasource}"
    used = {name for name in _VARIABLE.findall(json.dumps(board)) if not _BUILT_IN.match(name)}
    for name in sorted(used - variables.keys()):
        yield f"there is no variable ${name}"
    for name in sorted(variables.keys() - used):
        yield f"nothing uses the variable ${name}"


def _unknown_metrics(board, metrics):
    for text in [one["query"] for one in board["templating"]["list"]] + [
        target["expr"] for panel in board["panels"] for target in panel.get("targets", ())
    ]:
        for name in sorted(metrics_in(text) - metrics):
            yield f"nobody exports {name}"


def _repeated(board):
    for number, count in Counter(panel["id"] for panel in board["panels"]).items():
        if count > 1:
            yield f"several panels have the id {number}"
    for panel in board["panels"]:
        names = [target["refId"] for target in panel.get("targets", ())]
        if len(set(names)) < len(names):
            yield f"several queries of panel {panel['id']} have the same refId"
        if panel["gridPos"]["x"] + panel["gridPos"]["w"] > 24:
            yield f"panel {panel['id']} is wider than the board"
