"""The events that a job waits for: the n-th use of a name in a run gets the n-th event of that name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pinlater.errors import EventInvalid, EventTimeout
from pinlater.jobs.events import check_event, event_name
from pinlater.jobs.json_forms import decoder
from pinlater.jobs.message_link import MessageLink
from pinlater.jobs.name_counter import check_name
from pinlater.jobs.settled import SettledErrors
from pinlater.jobs.waiting import ENDLESS_MS, JobWaits
from pinlater.model.body_fields import DECODE_ERRORS
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.messages import MessageWait, ReceivedMessage
from pinlater.model.wait_records import EventRecord

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext

_PAGE = 1000


class EventWaits:
    """Waits for events in one attempt.

    Args:
        context: context of the attempt.
        metadata: records which events have arrived.
        link: reads messages.
        save: saves the record.
        settled: collects the errors with which waits have ended.
    """

    def __init__(
        self,
        context: WorkflowContext,
        metadata: BodyMetadata,
        link: MessageLink,
        save: Callable[[], object],
        settled: SettledErrors,
    ) -> None:
        self._context = context
        self._records = metadata.events
        self._link = link
        self._save = save
        self._settled = settled
        self._uses: defaultdict[str, int] = defaultdict(int)
        self._received: defaultdict[str, list[ReceivedMessage]] = defaultdict(list)

    def wait_for(self, name: str, kind: Any, timeout: float | None) -> Any:
        """Return the next event; see ``JobContext.wait_for``."""
        check_name(name)
        check_event(name)
        self._uses[name] = use = self._uses[name] + 1
        self._context.go_on_to_wait()
        record = self._records.get(name) or EventRecord()
        if use in record.timeouts:
            raise self._timed_out(name, record, use)
        wanted = record.wanted(use)
        message = self._message(name, wanted, record.before)
        if message is not None:
            record.here = max(record.here, wanted - record.before)
            self._records[name] = record
            return _value(name, message, kind)
        until_ms = self._until_ms(name, record, use, timeout)
        self._context.begin()
        raise self._context.begin_wait(JobWaits([MessageWait(event_name(name), wanted)], until_ms))

    @property
    def is_ahead(self) -> bool:
        """Whether earlier attempts have got further: they have got, or awaited, more events than this one asked for."""
        return any(
            self._uses[name] < max(record.here + len(record.timeouts), *record.until_ms, 0)
            for name, record in self._records.items()
        )

    def _message(self, name: str, wanted: int, before: int) -> ReceivedMessage | None:
        """Return the message with a number, from 1; None if it has not come. Those of earlier runs are not read."""
        received = self._received[name]
        while wanted > before + len(received):
            page = self._link.read(event_name(name), before + len(received), _PAGE)
            if not page:
                return None
            received += page
        return received[wanted - before - 1]

    def _until_ms(self, name: str, record: EventRecord, use: int, timeout: float | None) -> int:
        """Return the epoch milliseconds at which a wait times out.

        Raises:
            EventTimeout: it has timed out.
        """
        if timeout is None:
            return ENDLESS_MS
        if use not in record.until_ms:
            record.until_ms[use] = self._link.now_ms() + int(timeout * 1000)
            self._records[name] = record
        until_ms = record.until_ms[use]
        if not self._link.is_over(event_name(name), until_ms):
            return until_ms
        del record.until_ms[use]
        record.timeouts.append(use)
        self._save()  # first: the job will act on the timeout, and a late event must not change that
        raise self._timed_out(name, record, use)

    def _timed_out(self, name: str, record: EventRecord, use: int) -> EventTimeout:
        error = EventTimeout(f"no event {name!r} came in time")
        return self._settled.add(error, partial(record.timeouts.remove, use))


def _value(name: str, message: ReceivedMessage, kind: Any) -> Any:
    try:
        return decoder(kind).decode(message.payload)
    except DECODE_ERRORS as error:
        raise EventInvalid(
            f"event {name!r} does not fit {getattr(kind, '__name__', kind)}: {error}; deploy a type that allows it, or "
            "catch EventInvalid and wait for the next one"
        ) from error
