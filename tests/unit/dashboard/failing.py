"""Failed jobs, as our workers leave them."""

import time

from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.status import format_failure, format_origin, status_space


def failed_status(error, attempt=1, allowed=1):
    header = f"attempt {attempt}/{allowed} {format_origin('web1', 42, time.time())} 0.52 s"
    return format_failure(
        header, error, ['  File "/srv/jobs.py", line 12, in run\n    mailer.send()'], status_space(attempt, allowed)
    )


def fail(client, *errors, queue="pins", body=b"{}"):
    """Leave one failed job for each error."""
    descriptors = client.enqueue_jobs(queue, [NewJob(body, attempts=1) for _ in errors])
    claimed = client.dequeue_jobs(queue, len(errors))
    assert {job.descriptor for job in claimed} == set(descriptors)
    client.ack(
        queue,
        failed=[
            Ack(job.descriptor, job.claim, failed_status(error)) for job, error in zip(claimed, errors, strict=True)
        ],
    )
    return descriptors


def retry_later(client, error, *, job="", queue="pins", body=b"{}", count=1, seconds=3600):
    """Let the first of five attempts of new jobs fail; return their descriptors."""
    descriptors = client.enqueue_jobs(queue, [NewJob(body, attempts=5)] * count)
    for claimed in client.dequeue_jobs(queue, count):
        failed = Ack(claimed.descriptor, claimed.claim, failed_status(error, 1, 5), seconds, job=job)
        client.ack(queue, failed=[failed])
    return descriptors
