"""Jobs that cannot get another descriptor, since others know the one that they have."""

from __future__ import annotations

from pinlater.jobs.batch import Batch
from pinlater.model.body_metadata import awaits_messages
from pinlater.model.class_name import name_in
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState


def is_tied(job: JobInfo) -> bool:
    """Return whether a job has called others or waited for events, is a batch, or is called by another and unfinished.

    A copy would wait for ever for what was sent to the original, and the caller would take its deletion for its end.

    Args:
        job: the job, with its body.
    """
    if job.state is JobState.SUCCEEDED:
        return False
    if name_in(job.body or b"") == Batch.job_options.name:
        return True
    is_awaited = job.parent is not None and job.state is not JobState.FAILED
    return bool(is_awaited or job.waits_for or awaits_messages(job.body))
