"""Periodic jobs, as workers leave them."""

import json
import time

from pinlater.model.attempts import Ack
from pinlater.model.body_metadata import periodic_key
from pinlater.model.jobs import NewJob
from tests.unit.dashboard.failing import failed_status

MINUTE_MS = 60_000


def plant(client, name, schedule="every 60.0", *, queue="pins", due_in_ms=MINUTE_MS, last=None, error="", **recurrence):
    """Leave a periodic job; return its descriptor.

    Args:
        client: client of the server.
        name: its class.
        schedule: text of the schedule.
        queue: its queue.
        due_in_ms: milliseconds until it is due; negative if it is late.
        last: result, and milliseconds that the last run took.
        error: of its last failure.
        recurrence: what else is kept of its runs.
    """
    now_ms = int(time.time() * 1000)
    record = {"due_ms": now_ms + due_in_ms, "schedule": schedule, **recurrence}
    if last is not None:
        result, run_ms = last
        times = {"due_ms": now_ms - MINUTE_MS, "started_ms": now_ms - 50_000, "ended_ms": now_ms - 50_000 + run_ms}
        record["last"] = {**times, "result": result}
    body = json.dumps({"job": name, "$again": record}).encode()
    status = failed_status(error, 3, 3) if error else ""
    job = NewJob(body, run_after_ms=now_ms + due_in_ms, attempts=19, status=status, unique=periodic_key(name, schedule))
    [descriptor] = client.enqueue_jobs(queue, [job])
    return descriptor


def fail_attempt(client, queue="pins", retry_after=30):
    """Let the attempt of the one due job fail."""
    [claimed] = client.dequeue_jobs(queue, 1)
    client.ack(queue, failed=[Ack(claimed.descriptor, claimed.claim, failed_status("OSError: busy"), retry_after)])
