"""The worker's ``/metrics`` in the Prometheus text format, version 0.0.4.

The Prometheus client library is not used: it would take 10 MB in the master, and so in every process that it forks
afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate

from pinlater_supervisor import ChildExit

from pinlater.model.descriptor import queue_of
from pinlater.worker.claim_table.counters import (
    RETURNED,
    SAVED,
    TICK_FAILED,
    UNACKED,
    UNSAVED,
    Key,
    RunCounts,
    bucket_seconds,
)
from pinlater.worker.shared import Shared

_SHOWN_BUCKETS = range(0, 53, 2)
"""Every second bucket, from 0.1 ms to 13 hours, three per decade; the others are added to the next one."""

_ALERTED_ENDINGS = frozenset({"crashed", "poison", TICK_FAILED})
"""Endings that are exported as 0 from a class's first run on: alerts notice a series that rises, not a new one."""

EVENT_METRICS = (
    (SAVED, "pinlater_worker_checkpoints_total", "Checkpoints saved by a server"),
    (UNSAVED, "pinlater_worker_checkpoints_lost_total", "Checkpoints that no server saved in time"),
    (RETURNED, "pinlater_worker_jobs_returned_total", "Jobs released before they were started"),
    (UNACKED, "pinlater_worker_acks_lost_total", "Finished jobs that no server acknowledged"),
)
"""Event, and name and help text of its counter."""

Exits = Counter[tuple[str, str]]
"""(Pool, reason) -> number of process exits."""


def reason_of(ended: ChildExit) -> str:
    """Return the exit reason of a process, one of a few words, since each becomes a time series."""
    if ended.killed_by_master is not None:
        return ended.killed_by_master.replace(" ", "_").replace("-", "_")
    if ended.stopping:
        return "stopped"
    if ended.signal is not None:
        return "signal"
    return "done" if ended.is_clean else "failed"


class WorkerMetrics:
    """Collects and renders the worker's metrics in the master.

    Args:
        shared: memory shared with the other processes.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._exits: Exits = Counter()

    def count_exit(self, ended: ChildExit) -> None:
        """Count the exit of a job process."""
        self._exits[ended.pool, reason_of(ended)] += 1

    def page(self) -> bytes:
        """Return the text of the page."""
        shared = self._shared
        numbers = shared.claim_table.used(number for rows in shared.row_numbers.values() for number in rows)
        return "".join(_lines(shared, shared.counters.counts(numbers), self._exits)).encode()


def _lines(shared: Shared, counts: Mapping[Key, RunCounts], exits: Exits) -> Iterator[str]:
    runs = {key: count for key, count in sorted(counts.items()) if key[1]}
    yield from _head("pinlater_worker_jobs_total", "counter", "Finished runs of jobs, by class and ending")
    for (queue, name), count in runs.items():
        for ending, number in count.endings.items():
            if number or ending in _ALERTED_ENDINGS:
                yield _line("pinlater_worker_jobs_total", {"queue": queue, "class": name, "ending": ending}, number)
    yield from _head("pinlater_worker_job_seconds", "histogram", "Duration of runs, whatever their ending")
    for (queue, name), count in runs.items():
        yield from _histogram("pinlater_worker_job_seconds", {"queue": queue, "class": name}, count)
    running = _running(shared)
    served = {queue: RunCounts() for _, queue in running}
    queue_counts = {queue: count for (queue, name), count in counts.items() if not name}
    for event, name, text in EVENT_METRICS:
        yield from _head(name, "counter", text)
        for queue, count in sorted((served | queue_counts).items()):
            yield _line(name, {"queue": queue}, count.events[event])
    yield from _head("pinlater_worker_jobs_running", "gauge", "Jobs running now")
    for (pool, queue), jobs in running.items():
        yield _line("pinlater_worker_jobs_running", {"pool": pool, "queue": queue}, jobs)
    yield from _head("pinlater_worker_process_exits_total", "counter", "Exits of job processes, by reason")
    for (pool, reason), number in sorted(exits.items()):
        yield _line("pinlater_worker_process_exits_total", {"pool": pool, "reason": reason}, number)


def _running(shared: Shared) -> dict[tuple[str, str], int]:
    """Count running jobs by pool and queue, with 0 for each idle queue that is served."""
    found: dict[tuple[str, str], int] = {}
    for pool, _, row in shared.rows():
        found.update({(pool, queue): found.get((pool, queue), 0) for queue in row.identity.queues})
        for queue, jobs in Counter(queue_of(job.descriptor) for job in row.running_jobs()).items():
            found[pool, queue] = found.get((pool, queue), 0) + jobs
    return found


def _histogram(name: str, labels: Mapping[str, str], count: RunCounts) -> Iterator[str]:
    below = list(accumulate(count.buckets))
    for bucket in _SHOWN_BUCKETS:
        yield _line(f"{name}_bucket", {**labels, "le": f"{bucket_seconds(bucket):.6g}"}, below[bucket])
    yield _line(f"{name}_bucket", {**labels, "le": "+Inf"}, below[-1])
    yield _line(f"{name}_sum", labels, count.seconds)
    yield _line(f"{name}_count", labels, below[-1])


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    label_text = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{label_text}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
