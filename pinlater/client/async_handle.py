"""Handles of enqueued jobs, with calls to follow, cancel or run them, and to send them events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator  # async only
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.polling import Patience, pick
from pinlater.errors import CallUnsupported
from pinlater.jobs.events import event_message
from pinlater.jobs.failed_jobs import job_failed
from pinlater.jobs.job import Job, Result_co
from pinlater.jobs.result_codec import decode_result
from pinlater.model.descriptor import queue_of
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import cancelled_status


class AsyncJobHandle(Generic[Result_co]):
    """A job that was enqueued; ``AsyncClient.enqueue`` and ``AsyncClient.handle`` return it.

    Attributes:
        descriptor: the job's address; enough to look it up from anywhere.
    """

    def __init__(self, client: AsyncVerbs, descriptor: str, kind: type[Job[Any]] | None = None) -> None:
        self._client = client
        self._kind = kind
        self.descriptor = descriptor

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.descriptor!r})"

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> NoReturn:
            from pinlater.jobs.option_names import handle_lacks

            raise handle_lacks(self, name)

    async def status(self, *, include_body: bool = False) -> JobInfo:
        """Look up the job's current status.

        Raises:
            LookupError: the job does not exist, or no longer exists: finished jobs are deleted after a while.
        """
        found = await self._client.lookup([self.descriptor], include_body=include_body)
        return pick(found, self.descriptor)

    async def wait(self, timeout: float | None = None) -> JobInfo:  # noqa: ASYNC109 - as JobHandle.wait has it
        """Wait until the job has SUCCEEDED or FAILED; return its status, with its result.

        The server answers when the job ends. Servers of older versions are polled at growing intervals.

        Args:
            timeout: seconds to wait; None: forever.

        Raises:
            JobUnfinished: the job did not end in time, and is not affected; a kind of ``CallTimeout``.
            LookupError: as in ``status``.
        """
        patience = Patience(timeout)
        while True:
            asked, seconds = time.monotonic(), patience.parked_seconds()
            found = await self._client.lookup([self.descriptor], include_result=True, wait=seconds)
            info = pick(found, self.descriptor)
            if info.state.is_final:
                return info
            rest = patience.rest(info)
            if time.monotonic() - asked < seconds:  # the server does not wait, or is about to stop
                await asyncio.sleep(rest)

    async def result(self, timeout: float | None = None) -> Result_co:  # noqa: ASYNC109 - as JobHandle.result has it
        """Wait until the job has ended; return what its ``run`` returned.

        The result is stored as long as the job, by default for a day.

        Args:
            timeout: seconds to wait; None: forever.

        Raises:
            JobFailed: the job failed for good: ``JobWasCancelled`` if it was cancelled, ``JobGone`` if it never existed
                or no longer exists.
            JobUnfinished: the job did not end in time, and is not affected; a kind of ``CallTimeout``.
            ResultInvalid: the result does not fit the type that the class declares.
        """
        name = "" if self._kind is None else self._kind.job_options.name
        try:
            info = await self.wait(timeout)
        except LookupError:
            raise job_failed(self.descriptor, "", name=name, is_gone=True) from None
        if info.state is JobState.FAILED:
            raise job_failed(self.descriptor, info.status, name=name, is_cancelled=info.is_cancelled)
        found: Result_co = decode_result(self._kind, info.result)
        return found

    def __await__(self) -> Generator[Any, None, Result_co]:  # async only
        return self.result().__await__()  # async only

    async def cancel(self, reason: str = "") -> bool:
        """Cancel the job and its children.

        A PENDING job is FAILED at once, and marked as cancelled. A running one is asked to stop: ``JobCancelled`` is
        raised in it at the next call of its context. It may still succeed. A job with sagas to undo runs once more to
        undo them first. A server of an older version deletes a PENDING job, and leaves a running one alone.

        Args:
            reason: text for the job's status, such as who cancelled it.

        Returns:
            Whether the job was cancelled or asked to stop, now or before; False if it has ended otherwise or does not
            exist.

        Raises:
            QueueNotFound: its queue does not exist.
        """
        queue = queue_of(self.descriptor)
        try:
            return await self._client.cancel_these(queue, [self.descriptor], status=cancelled_status(reason)) > 0
        except CallUnsupported:  # by a server of an older version
            return await self._client.delete_these(queue, [self.descriptor], JobState.PENDING) > 0

    async def send(self, event: str, value: Any = None, *, id: str | None = None) -> bool:  # noqa: A002 - its name
        """Send an event to the job, which receives it with ``context.wait_for``; it is stored until then.

        Args:
            event: name of the event.
            value: anything that JSON can represent; the job gets it as the type that it asks for.
            id: of two events with the same name and id, only the first is stored; None: a new, unique id.

        Returns:
            Whether the job has the event; False if it has ended or does not exist.

        Raises:
            BodyInvalid: the value cannot be written as JSON.
            EnqueueRejected: the value is too large, or the name or id too long.
            ProtocolError: the server is of an older version.
        """
        return await self._client.send_message(self.descriptor, event_message(event, value, id))

    async def run_now(self) -> bool:
        """Make a PENDING job due now that was enqueued for later, is sleeping, or waits for its next attempt.

        It keeps its remaining attempts. A sleep counts as over.

        Returns:
            Whether the job has become due; False if it was due already, is running, has ended or does not exist.

        Raises:
            QueueNotFound: its queue does not exist.
            ProtocolError: the server is one of the original service, which does not know this call.
        """
        return await self._client.run_now(queue_of(self.descriptor), [self.descriptor]) > 0
