"""Readings for tests of rules."""

from pinlater.model.queues import QueueSettings
from pinlater.model.workers import WorkerProcess, WorkerReport
from pinlater.triage.readings import Readings
from pinlater.triage.rules import diagnose
from pinlater.triage.thresholds import Thresholds

NOW_MS = 1_700_000_000_000
THRESHOLDS = Thresholds()


def readings(*queues, waits=None, **fields):
    """Return readings of queues without settings; ``waits`` has seconds by queue."""
    fields.setdefault("settings", {queue: QueueSettings() for queue in queues or ("email",)})
    oldest = {queue: NOW_MS - int(seconds * 1000) for queue, seconds in (waits or {}).items()}
    return Readings(at_ms=NOW_MS, oldest_due_ms=oldest, **fields)


def process(pid=8, queues=("email",), **fields):
    return WorkerProcess(pid, queues=list(queues), started_ms=NOW_MS - 3_600_000, **fields)


def worker(*processes, host="web1", silent=1.0, **fields):
    fields.setdefault("id", f"{host}:7")
    return WorkerReport(host=host, pid=7, processes=processes, reported_ms=NOW_MS - int(silent * 1000), **fields)


def found(rule, looked_at):
    return list(rule(looked_at, THRESHOLDS))


def kinds(looked_at):
    return [finding.kind.value for finding in diagnose(looked_at)]
