"""Results of called jobs, and events, that a test gives to a ``FakeContext``."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, TypeVar

from pinlater.client.jobs import encoder
from pinlater.errors import JobFailed, JobGone, JobWasCancelled
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.child_calls import ChildCalls, Wave
from pinlater.jobs.events import event_name
from pinlater.jobs.job import Job
from pinlater.jobs.json_forms import encode
from pinlater.jobs.message_link import Children
from pinlater.model.messages import MessageKind, ReceivedMessage

_J = TypeVar("_J", bound=Job)


def _list(given: Sequence[Any]) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return given
    raise TypeError(f"{given!r:.80} has to be a list, in the order of arrival; for a single one: [{given!r:.80}]")


class FakeLink:
    """A ``MessageLink`` without a server.

    Args:
        results: name of a call -> what its jobs have returned; a ``JobFailed`` stands for a job that has failed.
        events: name of an event -> the values sent under it, in the order of their arrival.
        timed_out: names of calls and events whose timeout is over; what is given for them came before that.

    Attributes:
        called: name of a call -> the jobs that were called.

    Raises:
        TypeError: what is given for a name is no list.
    """

    def __init__(
        self, results: Mapping[str, Sequence[Any]], events: Mapping[str, Sequence[Any]], timed_out: Collection[str]
    ) -> None:
        self.called: dict[str, list[Job]] = {}
        self._messages = {
            **{_call_name(name): list(map(_end, count(), _list(ends))) for name, ends in results.items()},
            **{event_name(name): list(map(_event, count(), _list(sent))) for name, sent in events.items()},
        }
        self._timed_out = {found for name in timed_out for found in (_call_name(name), event_name(name))}
        self._numbers = count(2)

    def read(self, name: str, after: int, limit: int) -> list[ReceivedMessage]:
        """Return what the test gave; see ``MessageLink.read``."""
        return self._messages.get(name, [])[after : after + limit]

    def enqueue(self, children: Children) -> list[str]:
        """Record the called jobs; see ``MessageLink.enqueue``."""
        encoding, stored = encoder(children.options), []
        for job, parent in children.jobs:
            body = encoding.struct(job, parent).body or b""
            self.called.setdefault(parent.name.split("/", 2)[2], []).append(decoded(job, body))
            stored.append(f"{children.queue}:s1:p1:{next(self._numbers)}")
        return stored

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return int(time.time() * 1000)

    def is_over(self, name: str, until_ms: int) -> bool:  # noqa: ARG002 - the test says what is over
        """Return whether the test lets a wait time out; see ``MessageLink.is_over``."""
        return name in self._timed_out


class FakeCalls(ChildCalls):
    """Enqueues the called jobs even if all have ended, since a test gives their results before they are called."""

    def _ended(self, wave: Wave) -> Any:
        self._enqueue_rest(wave)
        return super()._ended(wave)


def decoded(job: _J, body: bytes) -> _J:
    """Return the job that a worker would decode from the body of ``job``."""
    read = _codec(type(job)).decode(job.job_options.queue, body)
    assert isinstance(read, type(job))
    return read


@cache
def _codec(kind: type[Job]) -> JobCodec:
    return JobCodec([kind])


def _call_name(name: str) -> str:
    return f"call/0/{name}"


def _end(position: int, end: Any) -> ReceivedMessage:
    kind, payload = MessageKind.SUCCEEDED, b""
    if isinstance(end, JobFailed):
        kind = (
            MessageKind.CANCELLED
            if isinstance(end, JobWasCancelled)
            else MessageKind.DELETED
            if isinstance(end, JobGone)
            else MessageKind.FAILED
        )
        payload = (end.status or str(end)).encode()
    elif isinstance(end, bytes):
        payload = end
    elif end is not None:
        payload = encode(end)
    return ReceivedMessage(position + 1, str(position), payload, kind)


def _event(position: int, value: Any) -> ReceivedMessage:
    return ReceivedMessage(position + 1, str(position), encode(value), MessageKind.EVENT)
