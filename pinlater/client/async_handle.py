"""Handles of enqueued jobs, with calls to follow, cancel or run them."""

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
        descriptor: the job's address; enough to look it up from anywhere.
    """

    def __init__(self, client: AsyncVerbs, descriptor: str) -> None:
        self._client = client
        self.descriptor = descriptor

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.descriptor!r})"

    async def status(self, *, include_body: bool = False) -> JobInfo:
        """Look up the job's present status.

        Raises:
            LookupError: the job does not exist, or no longer: finished jobs are deleted after a while.
        """
        found = await self._client.lookup([self.descriptor], include_body=include_body)
        return pick(found, self.descriptor)

    async def wait(self, timeout: float) -> JobInfo:  # noqa: ASYNC109 - as JobHandle.wait has it
        """Wait until the job has SUCCEEDED or FAILED, polling at growing intervals; return its status.

        Args:
            timeout: seconds to wait.

        Raises:
            CallTimeout: the job did not finish in time; it is not changed.
            LookupError: as in ``status``.
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

        A job is either cancelled or handed to a worker, never both. A running or finished job is not changed.

        Returns:
            Whether the job was deleted; then no attempt begins any more.

        Raises:
            QueueNotFound: its queue does not exist.
        """
        return await self._client.delete_these(queue_in(self.descriptor), [self.descriptor], JobState.PENDING) > 0

    async def run_now(self) -> bool:
        """Make a PENDING job due that is not: enqueued for later, sleeping, or waiting for its next attempt.

        It keeps its remaining attempts. A sleep counts as over.

        Returns:
            Whether the job has become due; False if it was due already, runs, has ended or does not exist.

        Raises:
            QueueNotFound: its queue does not exist.
            ProtocolError: the server is one of the original service, which does not know this call.
        """
        return await self._client.run_now(queue_in(self.descriptor), [self.descriptor]) > 0
