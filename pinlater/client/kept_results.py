"""Step results that are stored beside a job's body, brought along when the job moves to another queue or store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pinlater.jobs.outside_steps import StepResults, read_results, steps_name
from pinlater.model.body_metadata import read_metadata, replace_metadata
from pinlater.model.jobs import JobInfo
from pinlater.model.kept_mark import unmarked
from pinlater.model.messages import ReceivedMessage


def kept_name(job: JobInfo) -> str | None:
    """Return the name of the messages that hold results of a job's steps; None if all results are in its body."""
    if job.body is None or unmarked(job.body) is None:
        return None
    return steps_name(read_metadata(job.body).run)


def with_results(job: JobInfo, messages: Sequence[ReceivedMessage]) -> JobInfo:
    """Return a job with the results of its steps in its body; if that makes it too large, it is refused later.

    Args:
        job: the job.
        messages: all of its messages that have the name ``kept_name``.
    """
    if job.body is None:
        return job
    metadata, results = read_metadata(job.body), StepResults()
    for message in messages:
        results.add(read_results(message))
    if len(results.steps) < metadata.kept:
        return job  # some are missing: the job reports it when it runs
    inside = msgspec.structs.replace(
        metadata,
        steps=results.steps | metadata.steps,
        prints=results.prints | metadata.prints,
        times=results.times | metadata.times,
        untyped=[*results.untyped, *metadata.untyped],
        fingerprints={name: f"{head}/" for name, head in results.functions.items()} | metadata.fingerprints,
        kept=0,
    )
    return job._replace(body=replace_metadata(job.body, inside))
