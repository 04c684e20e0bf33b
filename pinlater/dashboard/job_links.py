"""Links of a job: the jobs that it has called or enqueued, and the events that it has received."""

from __future__ import annotations

from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.waits import event_name
from pinlater.dashboard.bodies import view_of
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.jobs import JobInfo

_MOST_JOBS = 50
_MOST_EVENT_NAMES, _MOST_EVENTS = 5, 10


class LinkedJob(NamedTuple):
    """A called or enqueued job; ``info`` is None if it no longer exists."""

    call: str
    descriptor: str
    info: JobInfo | None


class GotEvent(NamedTuple):
    """An event that was sent to a job."""

    name: str
    number: int
    value: str


class JobLinks(NamedTuple):
    """Links of a job.

    Attributes:
        jobs: called and enqueued jobs.
        more: number of further jobs that are not listed.
        events: events that were sent to it, the oldest first.
    """

    jobs: list[LinkedJob]
    more: int
    events: list[GotEvent]


async def links_of(client: AsyncVerbs, descriptor: str, metadata: BodyMetadata) -> JobLinks:
    """Read the links of a job, as far as its body names them.

    Raises:
        PinLaterError: the server does not answer.
    """
    named = [(name, one) for name, call in metadata.calls.items() for one in call.descriptors(_MOST_JOBS)]
    named += list(metadata.enqueued.items())
    total = sum(call.count for call in metadata.calls.values()) + len(metadata.enqueued)
    shown = named[:_MOST_JOBS]
    found = await client.lookup([one for _, one in shown]) if shown else {}
    jobs = [LinkedJob(name, one, found.get(one)) for name, one in shown]
    return JobLinks(jobs, max(total - len(jobs), 0), await _events_of(client, descriptor, metadata))


async def _events_of(client: AsyncVerbs, descriptor: str, metadata: BodyMetadata) -> list[GotEvent]:
    events = []
    for name in list(metadata.events)[:_MOST_EVENT_NAMES]:
        messages = await client.read_messages(descriptor, event_name(name), limit=_MOST_EVENTS)
        events += [GotEvent(name, message.number, view_of(message.payload).text) for message in messages]
    return events
