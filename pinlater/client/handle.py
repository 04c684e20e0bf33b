"""What an enqueue returns: a job's address, and ways to follow it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.verbs import Verbs
from pinlater.errors import CallTimeout
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.records import JobInfo
from pinlater.model.state import JobState

_FIRST_POLL_SECONDS = 0.02
_SLOWEST_POLL_SECONDS = 2.0


class JobHandle:
    """A job that was enqueued; ``Client.enqueue`` and ``Client.handle`` return it.

    Attributes:
        descriptor: its address; enough to look it up from anywhere.
    """

    def __init__(self, client: Verbs, descriptor: str) -> None:
        self._client = client
        self.descriptor = descriptor

    def __repr__(self) -> str:
        return f"JobHandle({self.descriptor!r})"

    def status(self, *, include_body: bool = False) -> JobInfo:
        """Ask the server how the job stands.

        Raises:
            LookupError: the server does not have it (any more): finished jobs are collected after a while.
        """
        found = self._client.lookup([self.descriptor], include_body=include_body)
        return _pick(found, self.descriptor)

    def wait(self, timeout: float) -> JobInfo:
        """Return the job's status once it has SUCCEEDED or FAILED, asking ever more slowly.

        Args:
            timeout: seconds to wait.

        Raises:
            CallTimeout: it was not finished by then; the job itself is not touched.
            LookupError: see ``status``.
        """
        deadline = time.monotonic() + timeout
        for pause in _pauses():
            info = self.status()
            if info.state.is_final:
                return info
            time.sleep(_bounded(pause, deadline, info))
        raise AssertionError  # the pauses never end

    def cancel(self) -> bool:
        """Delete the job if it is PENDING: not due yet, waiting for a worker or for its next attempt.

        A worker and a cancellation never both get the job. One that runs, or has ended, is left alone.

        Returns:
            Whether it was deleted, so that no attempt begins any more.

        Raises:
            QueueNotFound: its queue is not there.
        """
        return self._client.delete_these(_queue(self.descriptor), [self.descriptor], JobState.PENDING) > 0

    def run_now(self) -> bool:
        """Make the job due if it is PENDING and is not: enqueued for later, asleep, or waiting for its next attempt.

        It keeps the attempts that it has left. A sleep that it is in counts as over.

        Returns:
            Whether it has become due by this; False: it was due already, runs, has ended or is not there.

        Raises:
            QueueNotFound: its queue is not there.
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return self._client.run_now(_queue(self.descriptor), [self.descriptor]) > 0


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
        """Do what ``JobHandle.status`` does."""
        found = await self._client.lookup([self.descriptor], include_body=include_body)
        return _pick(found, self.descriptor)

    async def wait(self, timeout: float) -> JobInfo:  # noqa: ASYNC109 - one meaning with JobHandle.wait
        """Do what ``JobHandle.wait`` does."""
        deadline = time.monotonic() + timeout
        for pause in _pauses():
            info = await self.status()
            if info.state.is_final:
                return info
            await asyncio.sleep(_bounded(pause, deadline, info))
        raise AssertionError  # the pauses never end

    async def cancel(self) -> bool:
        """Do what ``JobHandle.cancel`` does."""
        return await self._client.delete_these(_queue(self.descriptor), [self.descriptor], JobState.PENDING) > 0

    async def run_now(self) -> bool:
        """Do what ``JobHandle.run_now`` does."""
        return await self._client.run_now(_queue(self.descriptor), [self.descriptor]) > 0


def _queue(descriptor: str) -> str:
    return JobDescriptor.parse(descriptor).queue


def _pick(found: dict[str, JobInfo], descriptor: str) -> JobInfo:
    info = found.get(descriptor)
    if info is None:
        raise LookupError(f"the server has no job {descriptor}; finished jobs are collected after a while")
    return info


def _pauses() -> Iterator[float]:
    pause = _FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, _SLOWEST_POLL_SECONDS)


def _bounded(pause: float, deadline: float, info: JobInfo) -> float:
    """Return how long to sleep, at most up to the deadline."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        is_due = info.state is JobState.PENDING and (info.run_after_ms or 0) <= time.time() * 1000
        hint = "; does a worker serve its queue (pinlater workers)?" if is_due else ""
        raise CallTimeout(f"{info.descriptor} is still {info.state.name}{hint}")
    return min(pause, remaining)
