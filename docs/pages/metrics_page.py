"""The page of all metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pages.class_sections import PACKAGE
from pages.markdown import code, page, sentence, table
from pinlater.server.metrics.catalog import Metrics
from pinlater.server.metrics.families import CounterSnapshot, DistributionSnapshot
from pinlater.worker.claim_table.counters import ENDINGS
from pinlater.worker.metrics import EVENT_METRICS


def metrics() -> str:
    """Return the page of all metrics."""
    kinds = {CounterSnapshot: "counter", DistributionSnapshot: "histogram"}
    rows = []
    for family in Metrics().snapshot():
        info = family.info
        labels = ", ".join(code(label) for label in info.labels)
        ostrich = " ".join(filter(None, (code(info.ostrich), code(info.ostrich_total))))
        rows.append((code(info.name), kinds.get(type(family), "gauge"), labels, sentence(info.help), ostrich))
    return page(
        "Metrics",
        "The server has them on its admin port: `/metrics` for Prometheus, `/stats.txt` under the names of the "
        "original service. A worker has its own under `/metrics` of `--health`.",
        "## Of the server\n\n" + table(("metric", "kind", "labels", "meaning", "in `/stats.txt`"), rows),
        "## Of a worker\n\n" + table(("metric", "kind", "labels", "meaning"), list(worker_metrics())),
        f"Endings of runs (`ending`): {', '.join(map(code, ENDINGS))}.",
    )


def worker_metrics() -> Iterator[tuple[str, str, str, str]]:
    """Yield the metrics of a worker, as its module declares them."""
    source = (PACKAGE / "worker" / "metrics.py").read_text(encoding="utf-8")
    heads = re.findall(r'_head\("(\w+)", "(\w+)", "([^"]+)"\)', source)
    for name, kind, help_text in heads:
        labelled = re.search(rf'"{name}", \{{(.*?)\}}', source)
        labels = re.findall(r'"(\w+)":', labelled[1]) if labelled else []
        yield code(name), kind, ", ".join(map(code, labels)), sentence(help_text)
    for _, name, help_text in EVENT_METRICS:
        yield code(name), "counter", code("queue"), sentence(help_text)
