"""Enqueue the jobs of the demo, and ask for their state."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from jobs_example import DeliverEvent, IndexStandardLibrary, MakeThumbnails, PublishReport
from jobs_example.thumbnails import PHOTOS
from pinlater import Client, Job, JobHandle, JobState
from pinlater.client import JobInfo

EVENTS = 30
DELAY_SECONDS = 6.0
KINDS: tuple[type[Job], ...] = (MakeThumbnails, DeliverEvent, IndexStandardLibrary, PublishReport)
QUEUES = tuple(kind.job_options.queue for kind in KINDS)


@dataclass(frozen=True)
class Work:
    """The jobs that were enqueued.

    Attributes:
        folder: folder for the results.
        thumbnails: one job for each photograph.
        events: one job for each event, numbered from 1.
        delayed: one more event, to be delivered after DELAY_SECONDS.
        index: the long job.
        report: the workflow.
    """

    folder: Path
    thumbnails: list[JobHandle]
    events: list[JobHandle]
    delayed: JobHandle
    index: JobHandle
    report: JobHandle

    @property
    def handles(self) -> list[JobHandle]:
        return [*self.thumbnails, *self.events, self.delayed, self.index, self.report]

    @property
    def index_file(self) -> Path:
        return self.folder / "index.sqlite"

    @property
    def report_file(self) -> Path:
        return self.folder / "report.md"

    @property
    def thumbnail_folder(self) -> Path:
        return self.folder / "thumbnails"


def enqueue_all(client: Client, folder: Path, url: str) -> Work:
    """Create the queues and enqueue all jobs."""
    for queue in QUEUES:
        client.create_queue(queue)
    index = IndexStandardLibrary(database=str(folder / "index.sqlite"))
    report = PublishReport(report=str(folder / "report.md"), url=url)
    return Work(
        folder=folder,
        index=client.enqueue(index),
        thumbnails=[
            client.enqueue(MakeThumbnails(photo=str(photo), folder=str(folder / "thumbnails")))
            for photo in sorted(PHOTOS.glob("*.jpg"))
        ],
        events=[client.enqueue(DeliverEvent(url=url, event={"number": number})) for number in range(1, EVENTS + 1)],
        delayed=client.enqueue(DeliverEvent(url=url, event={"number": 0}), delay=DELAY_SECONDS),
        report=client.enqueue(report),
    )


class Counts(NamedTuple):
    """Numbers of jobs of a queue by state."""

    waiting: int
    running: int
    done: int
    failed: int


def counts(client: Client, queue: str) -> Counts:
    """Count the jobs of a queue; scheduled jobs count as waiting."""
    later = client.count(queue, JobState.PENDING, future=True)
    due, running, done, failed = (client.count(queue, state) for state in JobState)
    return Counts(due + later, running, done, failed)


class IndexStatus(NamedTuple):
    """State of the index job: what the server knows, and the number of files at its last checkpoint."""

    info: JobInfo
    cursor: int


def index_status(work: Work) -> IndexStatus:
    """Look up the index job, with the record of its last checkpoint."""
    info = work.index.status(include_body=True)
    return IndexStatus(info, msgspec.json.decode(info.body or b"", type=IndexStandardLibrary).cursor)
