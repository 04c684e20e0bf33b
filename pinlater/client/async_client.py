"""The client for asyncio programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pinlater.client.async_base_client import AsyncBaseClient
from pinlater.client.async_pool import AsyncPool
from pinlater.client.servers import ServerSet
from pinlater.client.timeouts import check_timeouts
from pinlater.client.tls import TlsFiles
from pinlater.client.tracing_hooks import enqueue_tracer
from pinlater.protocol.operations import Calls


class AsyncClient(AsyncBaseClient):
    """The ``Client`` for asyncio: calls of many tasks run concurrently, even in the event loops of several threads.

    ::

        async with AsyncClient() as client:
            handle = await client.enqueue(SendWelcomeEmail(user_id=42))

    Cancelling a call closes its connection; then it is unknown whether the server has carried out the call.

    Args:
        servers: see ``Client``.
        source: name that is sent with calls; see ``Client``.
        connect_timeout: seconds until a server counts as unreachable.
        timeout: seconds until a call fails with ``CallTimeout``, its retries included.
        retries: further tries of a call whose answer was lost; see ``Client``.
        patience: seconds for which a call that was certainly not carried out is retried; see ``Client``.
        tls: files for servers at ``tls://host:port``; None: those named by ``PINLATER_TLS_CA``,
            ``PINLATER_TLS_CERT`` and ``PINLATER_TLS_KEY`` in the environment.
        connections: maximum number of connections per event loop; further calls wait for one, within their time-out.
        tracing: see ``Client``.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | ServerSet | None = None,
        *,
        source: str | None = None,
        connect_timeout: float = 2.0,
        timeout: float = 5.0,
        retries: int = 3,
        patience: float | None = None,
        tls: TlsFiles | None = None,
        connections: int = 64,
        tracing: bool = False,
    ) -> None:
        check_timeouts(connect_timeout=connect_timeout, timeout=timeout)
        self._pool = AsyncPool(ServerSet.of(servers, tls), connect_timeout, connections)
        self._calls = Calls(source)
        self._timeout = timeout
        self._retries = retries
        self._patience = patience
        self._trace_enqueue = enqueue_tracer(is_on=tracing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        self._pool.close()
