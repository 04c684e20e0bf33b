"""A client whose enqueues have idempotency keys from elsewhere, such as from a form that may be sent twice."""

from __future__ import annotations

from pinlater.client.async_client import AsyncClient
from pinlater.model.jobs import NewJob
from pinlater.protocol.conversion.jobs import new_job_structs
from pinlater.protocol.idempotency import derived_key, new_key

__all__ = ["KeyedClient", "derived_key", "new_key"]

_KEPT_MS = 3_600_000
"""How long a server is asked to recognize a key."""


class KeyedClient(AsyncClient):
    """An asyncio client that stores a job once for each idempotency key, however often it is told to."""

    async def enqueue_once(self, queue: str, job: NewJob, key: bytes) -> str:
        """Store a job, unless a call with this key has stored it; return its descriptor.

        Args:
            queue: queue to store it in.
            job: the job.
            key: key that ``new_key`` or ``derived_key`` has returned.

        Raises:
            PinLaterError: as in ``enqueue_jobs``.
        """
        structs = new_job_structs([job])
        call = self._calls.enqueue_once(queue, structs, key, is_repeat=True, keep_result_ms=_KEPT_MS)
        return (await self._execute(call))[0]
