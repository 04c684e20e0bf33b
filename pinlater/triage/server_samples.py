"""Samples of a server's metrics, and the reading that two samples give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pinlater.model.histogram import Histogram
from pinlater.triage.readings import ServerReading, ShardReading, StoreCalls

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

_STORE_SECONDS = "pinlater_store_seconds"
_SHARD_SECONDS = "pinlater_shard_call_seconds"
_FAILED_COMMITS = "pinlater_commits_failed_total"
_REFUSED_CALLS = "pinlater_calls_shed_total"
_FREE_BYTES = "pinlater_store_free_bytes"
_USED_BYTES = "pinlater_store_bytes"
_SHARD_AWAY = "pinlater_shard_ill"
_WAITING_FOR_KEY = "pinlater_queue_waiting_for_key_jobs"
_WARNING_THRESHOLD = "pinlater_warning_threshold"
_CERTIFICATE = "pinlater_tls_certificate_expiry_timestamp_seconds"
_NAMES = (
    *(_STORE_SECONDS, _SHARD_SECONDS, _FAILED_COMMITS, _REFUSED_CALLS),
    *(_FREE_BYTES, _USED_BYTES, _SHARD_AWAY, _WAITING_FOR_KEY, _WARNING_THRESHOLD, _CERTIFICATE),
)


class ServerSample(NamedTuple):
    """Metrics of a server at one moment; counts are since its start.

    Attributes:
        store: operation -> times of its calls to the store in seconds.
        shard_times: shard -> likewise.
        failed_commits: number of transactions that failed.
        refused_calls: number of calls refused because too many waited for the store.
        shards: shards of its store.
        waiting_for_key: queue -> number of jobs that wait for their key.
        thresholds: setting of the server -> number from which to warn.
        problem: why the server does not take calls; empty if it does, or if that is unknown.
        certificate_ends: when its TLS certificate expires, epoch seconds; None without one, or if that is unknown.
    """

    store: Mapping[str, Histogram] = {}
    shard_times: Mapping[str, Histogram] = {}
    failed_commits: int = 0
    refused_calls: int = 0
    shards: Sequence[ShardReading] = ()
    waiting_for_key: Mapping[str, int] = {}
    thresholds: Mapping[str, float] = {}
    problem: str = ""
    certificate_ends: float | None = None


def server_reading(first: ServerSample | None, last: ServerSample) -> ServerReading:
    """Return the activity between two samples and the state at the last; only the state if ``first`` is None."""
    state = ServerReading(
        last.shards,
        waiting_for_key=last.waiting_for_key,
        thresholds=last.thresholds,
        problem=last.problem,
        certificate_ends=last.certificate_ends,
    )
    if first is None:
        return state
    return state._replace(
        store_calls=_store_calls(first.store, last.store),
        shard_calls=_store_calls(first.shard_times, last.shard_times),
        failed_commits=max(last.failed_commits - first.failed_commits, 0),
        refused_calls=max(last.refused_calls - first.refused_calls, 0),
    )


def _store_calls(first: Mapping[str, Histogram], last: Mapping[str, Histogram]) -> list[StoreCalls]:
    """Return the calls between two samples, the slowest operation or shard first.

    Operations stay apart: dequeues that find nothing are quick and frequent, and would hide commits that take seconds.
    """
    added = {name: times.since(first.get(name)) for name, times in last.items()}
    found = [
        StoreCalls(name, times.size, seconds, times.quantile(0.5) or 0.0)
        for name, times in added.items()
        if (seconds := times.quantile(0.95)) is not None
    ]
    return sorted(found, key=lambda calls: -calls.p95_seconds)


def parse_metrics(text: str) -> ServerSample:
    """Read a sample from the page ``/metrics`` of a server's admin port.

    Raises:
        ValueError: the page has no such metrics, or another format.
    """
    values: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in _samples(text):
        values[sample.name].append(sample)
    if not values:
        raise ValueError("the page has no metrics of a PinLater server")
    by_shard = {
        name: {sample.labels.get("shard", ""): sample.value for sample in values[name]}
        for name in (_FREE_BYTES, _USED_BYTES, _SHARD_AWAY)
    }
    return ServerSample(
        _histograms(values[f"{_STORE_SECONDS}_bucket"], values[f"{_STORE_SECONDS}_sum"], "operation"),
        _histograms(values[f"{_SHARD_SECONDS}_bucket"], values[f"{_SHARD_SECONDS}_sum"], "shard"),
        int(sum(sample.value for sample in values[_FAILED_COMMITS])),
        int(sum(sample.value for sample in values[_REFUSED_CALLS])),
        [
            ShardReading(
                name,
                "the server does not use it until it does" if by_shard[_SHARD_AWAY].get(name) else "",
                None,
                by_shard[_USED_BYTES].get(name),
                by_shard[_FREE_BYTES].get(name),
            )
            for name in sorted(set().union(*by_shard.values()))
        ],
        {sample.labels.get("queue", ""): int(sample.value) for sample in values[_WAITING_FOR_KEY]},
        {sample.labels.get("setting", ""): sample.value for sample in values[_WARNING_THRESHOLD]},
        certificate_ends=next((sample.value for sample in values[_CERTIFICATE]), None),
    )


def _samples(text: str) -> Iterable[Sample]:
    """Yield the samples that matter: with many queues, the page has a hundred thousand others."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = [line for line in text.splitlines() if line.startswith(_NAMES)]
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        yield from family.samples


def _histograms(buckets: Sequence[Sample], sums: Sequence[Sample], label: str) -> dict[str, Histogram]:
    """Return histograms made from cumulative buckets, by the values of a label."""
    up_to: defaultdict[str, dict[float, int]] = defaultdict(dict)
    for sample in buckets:
        up_to[sample.labels.get(label, "")][float(sample.labels["le"])] = int(sample.value)
    seconds = {sample.labels.get(label, ""): sample.value for sample in sums}
    return {name: _histogram(found, seconds.get(name, 0.0)) for name, found in up_to.items()}


def _histogram(up_to: Mapping[float, int], seconds: float) -> Histogram:
    bounds = sorted(up_to)
    counts = [up_to[bounds[0]], *(up_to[high] - up_to[low] for low, high in pairwise(bounds))]
    return Histogram(tuple(bounds[:-1]), tuple(counts), seconds)
