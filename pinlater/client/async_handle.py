"""What an enqueue returns: a job's descriptor, and ways to follow the job."""

from __future__ import annotations

import asyncio
import time

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.polling import bounded, pauses, pick, queue_in
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState


class AsyncJobHandle:
    """A job that was enqueued; ``AsyncClient.enqueue`` and ``AsyncClient.handle`` return it.

    Attributes:
        descriptor: its address; enough to look it up from anywhere.
    """

    def __init__(self, client: AsyncVerbs, descriptor: str) -> None:
        self._client = client
        self.descriptor = descriptor

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.descriptor!r})"

    async def status(self, *, include_body: bool = False) -> JobInfo:
        """Ask the server how the job stands.

        Raises:
            LookupError: the server does not have it (any more): finished jobs are collected after a while.
        """
        found = await self._client.lookup([self.descriptor], include_body=include_body)
        return pick(found, self.descriptor)

    async def wait(self, timeout: float) -> JobInfo:  # noqa: ASYNC109 - as JobHandle.wait has it
        """Return the job's status once it has SUCCEEDED or FAILED, asking ever more slowly.

        Args:
            timeout: seconds to wait.

        Raises:
            CallTimeout: it was not finished by then; the job itself is not touched.
            LookupError: see ``status``.
        """
        deadline = time.monotonic() + timeout
        for pause in pauses():
            info = await self.status()
            if info.state.is_final:
                return info
            await asyncio.sleep(bounded(pause, deadline, info))
        raise AssertionError  # the pauses never end

    async def cancel(self) -> bool:
        """Delete the job if it is PENDING: not due yet, waiting for a worker or for its next attempt.

        A worker and a cancellation never both get the job. One that runs, or has ended, is left alone.

        Returns:
            Whether it was deleted, so that no attempt begins any more.

        Raises:
            QueueNotFound: its queue is not there.
        """
        return await self._client.delete_these(queue_in(self.descriptor), [self.descriptor], JobState.PENDING) > 0

    async def run_now(self) -> bool:
        """Make the job due if it is PENDING and is not: enqueued for later, asleep, or waiting for its next attempt.

        It keeps the attempts that it has left. A sleep that it is in counts as over.

        Returns:
            Whether it has become due by this; False: it was due already, runs, has ended or is not there.

        Raises:
            QueueNotFound: its queue is not there.
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return await self._client.run_now(queue_in(self.descriptor), [self.descriptor]) > 0
