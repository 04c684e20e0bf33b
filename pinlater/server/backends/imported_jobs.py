"""How a job of another store is stored here."""

from __future__ import annotations

from pinlater.model.body_metadata import OPEN_SAGA
from pinlater.model.jobs import JobRecord
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING


def as_imported(job: JobRecord) -> JobRecord:
    """Return a job as it is stored: nobody holds it, and it has its unique key only if it is PENDING.

    A job that is asked to stop remains so if it has something to undo. Otherwise it becomes FAILED if it was running,
    since it must not run again; if it was PENDING, importing it retries it.
    """
    has_to_undo = job.is_cancelled and OPEN_SAGA in (job.body or b"")
    state = job.state
    if state == IN_PROGRESS:
        state = FAILED if job.is_cancelled and not has_to_undo else PENDING
    return job._replace(
        state=state,
        is_cancelled=job.is_cancelled if state == FAILED else has_to_undo and state == PENDING,
        unique=job.unique if state == PENDING else None,
    )
