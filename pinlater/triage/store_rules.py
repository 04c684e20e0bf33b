"""Rules about the server and its store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from pinlater.errors import NotConnected, PinLaterError, ServerError
from pinlater.triage.findings import STORE_KINDS, Finding, Kind, Severity
from pinlater.triage.readings import Readings, ShardReading, StoreCalls
from pinlater.triage.texts import shortened, size, span
from pinlater.triage.thresholds import Thresholds

_FEWEST_CALLS = 2
"""A single call says nothing about the store."""

_ALMOST_FULL = 0.25
"""Below this fraction of the threshold, a shard may be full at any moment."""


OF_METRICS = STORE_KINDS - {Kind.SERVER_AWAY, Kind.ONE_SERVER_AWAY}
"""Kinds of findings that come from a server's metrics."""


def server_away(error: PinLaterError) -> Finding:
    """Return the finding that replaces all others when no server can be reached, or can carry out calls."""
    reason, lost = _reason(error), "Jobs are neither stored nor handed out."
    if isinstance(error, ServerError):
        title, sentence = "The server cannot carry out calls", f"The server answers every call with: {reason}. {lost}"
        advice = "See the server's log, and whether the databases of its store run and can be reached from it."
    else:
        title, sentence = "The server cannot be reached", f"No server answers: {reason}. {lost}"
        advice = "See whether pinlater-server runs, and whether its port can be reached from here."
    return Finding(Kind.SERVER_AWAY, Severity.CRITICAL, "server", title, sentence, advice)


def one_server_away(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find servers that do not answer, while others of those that were named do."""
    for name, error in readings.servers_away.items():
        yield Finding(
            Kind.ONE_SERVER_AWAY,
            Severity.WARNING,
            name,
            f"Server {name} does not answer",
            f"One of the servers does not answer: {_reason(error)}. Others do, so clients and workers that know "
            "several go on with those.",
            "See whether pinlater-server runs there, and whether its port can be reached from here. If it is gone for "
            "good, take it out of --server or PINLATER_SERVERS here, and of clients and workers.",
        )


def server_not_ready(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find a server that takes no calls."""
    if readings.server is not None and readings.server.problem:
        yield Finding(
            Kind.SERVER_NOT_READY,
            Severity.CRITICAL,
            "server",
            "The server is not ready",
            f"The server is not ready to take calls: {shortened(readings.server.problem)}.",
            "See the server's log.",
        )


def shard_away(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find shards that do not answer."""
    missing = [ShardReading(name, "it did not answer a count") for name in readings.missing_shards]
    for shard in [*_shards(readings), *missing]:
        if not shard.error:
            continue
        since = "" if shard.since_ms is None else f" for {span(readings.age_seconds(shard.since_ms))}"
        yield Finding(
            Kind.SHARD_AWAY,
            Severity.CRITICAL,
            shard.name,
            f"Shard {shard.name} of the store does not answer",
            f"Shard {shard.name} of the store has not answered{since}: {shortened(shard.error)}. Its jobs wait; other "
            "shards keep working, but queues with a limit of running jobs hand out none.",
            "See whether its database runs and can be reached from the server; the server's log has the errors.",
            since_ms=shard.since_ms,
            shard=shard.name,
        )


def store_full(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find shards with little space left."""
    for shard in _shards(readings):
        if shard.free_bytes is None:
            continue
        all_bytes = shard.free_bytes + (shard.used_bytes or 0)
        least = max(thresholds.free_bytes, thresholds.free_share * all_bytes)
        if shard.free_bytes >= least:
            continue
        used = "" if shard.used_bytes is None else f" It uses {size(shard.used_bytes)}."
        yield Finding(
            Kind.STORE_FULL,
            Severity.CRITICAL if shard.free_bytes < least * _ALMOST_FULL else Severity.WARNING,
            shard.name,
            f"The store's space is nearly used up (shard {shard.name})",
            f"{size(shard.free_bytes)} are left for shard {shard.name} of the store.{used} When it is full, no job is "
            "stored.",
            "See which finished jobs take the space, and delete them (the Server page shows how), let the "
            "server keep finished jobs for less time (BACKEND_MONITOR_JOB_SUCCEEDED_GC_TTL_HOURS), free space on "
            "the disk, or give the store more; for Redis raise maxmemory.",
            "df -h",
            shard=shard.name,
            numbers={"free_bytes": shard.free_bytes},
        )


def store_slow(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find a store whose calls are slow or fail, or that so many calls wait for that the server refuses some."""
    server = readings.server
    if server is None:
        took = readings.answer_seconds
        if took is not None and took >= thresholds.store_slow_seconds:
            yield _slow(took, f"A small call to the server took {span(took)}.", thresholds, {"seconds": took})
        return
    slow = [calls for calls in server.store_calls if _are_slow(calls, thresholds)]
    if slow:
        worst = slow[0]  # the slowest comes first
        shard = _slow_shard(server.shard_calls, thresholds)
        where = "" if shard is None else f" Of the shards, {shard.name} is slow: {span(shard.p95_seconds)}."
        told = f"One in twenty calls of {worst.name} to the store takes {span(worst.p95_seconds)} or longer.{where}"
        finding = _slow(worst.p95_seconds, told, thresholds, {"seconds": worst.p95_seconds, "calls": worst.calls})
        yield finding if shard is None else finding._replace(shard=shard.name)
    elif server.failed_commits or server.refused_calls:
        parts = [f"{server.failed_commits:,} transactions of the store failed"] if server.failed_commits else []
        parts += [f"{server.refused_calls:,} calls were refused for it"] if server.refused_calls else []
        numbers = {"failed_commits": server.failed_commits, "refused_calls": server.refused_calls}
        yield _slow(None, f"Within the last minute {' and '.join(parts)}.", thresholds, numbers)


def certificate_ends(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find a TLS certificate that has expired, or expires soon."""
    ends = None if readings.server is None else readings.server.certificate_ends
    if ends is None or (left := ends - readings.at_ms / 1000) >= thresholds.certificate_seconds:
        return
    day = time.strftime("%Y-%m-%d at %H:%M UTC", time.gmtime(ends))
    is_over = left <= 0
    yield Finding(
        Kind.CERTIFICATE_ENDS,
        Severity.CRITICAL if left < thresholds.certificate_critical_seconds else Severity.WARNING,
        "certificate",
        "The server's TLS certificate has expired" if is_over else "The server's TLS certificate expires soon",
        f"The certificate of the service's port {'expired' if is_over else 'expires'} on {day}, "
        f"{f'{span(-left)} ago' if is_over else f'in {span(left)}'}. "
        f"{'Workers and clients' if is_over else 'Then workers and clients'} that check it cannot connect.",
        "Renew it, and put it in the place of the old one (THRIFT_TLS_CERT): the server reads it within seconds, "
        "without a restart. The server's log says if it cannot.",
        since_ms=int(ends * 1000) if is_over else None,
        numbers={"seconds_left": left},
    )


def _reason(error: PinLaterError) -> str:
    return shortened(error.reasons if isinstance(error, NotConnected) else str(error))  # its advice is for programs


def _are_slow(calls: StoreCalls, thresholds: Thresholds) -> bool:
    """Return whether calls are slow: by the 95th percentile, or by the median if there are few."""
    seconds = calls.p95_seconds if calls.calls >= thresholds.store_calls else calls.median_seconds
    return calls.calls >= _FEWEST_CALLS and seconds >= thresholds.store_slow_seconds


def _slow_shard(calls: Sequence[StoreCalls], thresholds: Thresholds) -> StoreCalls | None:
    """Return the slowest of several shards if it alone is slow."""
    slow = [one for one in calls if one.p95_seconds >= thresholds.store_slow_seconds]
    return slow[0] if len(slow) == 1 < len(calls) else None


def _slow(seconds: float | None, told: str, thresholds: Thresholds, numbers: Mapping[str, float]) -> Finding:
    is_stalled = seconds is None or seconds >= thresholds.store_stalled_seconds
    return Finding(
        Kind.STORE_SLOW,
        Severity.CRITICAL if is_stalled else Severity.WARNING,
        "store",
        "The store is slow" if seconds is not None else "The store refuses work",
        f"{told} Enqueues, dequeues and acks wait for it.",
        "See what else uses its disk or database (iostat, SHOW PROCESSLIST, SLOWLOG GET) and the server's log; a disk "
        "with slow syncs is the usual cause. If the load comes from jobs, limit the busiest queue (pinlater limit), or "
        "add a shard.",
        "iostat -x 1 5",
        numbers=numbers,
    )


def _shards(readings: Readings) -> list[ShardReading]:
    return [] if readings.server is None else list(readings.server.shards)
