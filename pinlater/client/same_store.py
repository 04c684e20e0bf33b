"""Whether two servers keep their jobs in one store."""

from __future__ import annotations

from uuid import uuid4

from pinlater.client.client import Client
from pinlater.client.store_time import now_ms_at
from pinlater.errors import ServiceError
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState


def have_one_store(one: Client, other: Client, queue: str) -> bool:
    """Store a job through ``other``, and tell whether ``one`` finds it.

    Comparing addresses would not do: a server may have several, and a store several servers. The job is stored as
    SUCCEEDED, so it never runs, and it is deleted at once.

    Args:
        one: client of a server.
        other: client of a server that knows the call ``importJobs``.
        queue: queue to store the job in.
    """
    status, now = f"to tell whether two servers have one store: {uuid4().hex}", now_ms_at(other)
    ended = JobInfo(f"{queue}:s1:p1:1", JobState.SUCCEEDED, 1, 0, status, now, now, now, body=b"")
    (descriptor,) = other.import_jobs(queue, [ended])
    try:
        found = one.lookup([descriptor]).get(descriptor)
    except ServiceError:  # it has no such shard or queue
        return False
    finally:
        other.delete_these(queue, [descriptor], JobState.SUCCEEDED)
    return found is not None and status in found.status
