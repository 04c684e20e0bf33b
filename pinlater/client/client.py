"""The client for blocking programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pinlater.client.base_client import BaseClient
from pinlater.client.pool import Pool
from pinlater.client.servers import ServerSet
from pinlater.client.tls import TlsFiles
from pinlater.client.tracing_hooks import enqueue_tracer
from pinlater.protocol.operations import Calls


class Client(BaseClient):
    """Talks to the servers of a set; one client serves all threads of a program, and survives a fork.

    ::

        with Client() as client:
            handle = client.enqueue(SendWelcomeEmail(user_id=42), delay=60)

    A call that fails in a way that may pass is tried again, with growing, jittered waits of a quarter of a second at
    most. What was certainly not carried out, as no server could be reached, it was stopping, or no shard of the store
    answered, is tried until ``timeout`` is over: so a server that restarts fails no call. When nobody knows whether it
    was carried out, it is tried ``retries`` times more, and only if a second time does no harm (so never a dequeue), or
    if the server knows it again: enqueues, imports, retries and deletions carry a key under which the store keeps their
    result for some minutes, so they are carried out once. ``timeout`` bounds all tries together, so that no call hangs.

    Args:
        servers: ``"host:port,tls://host:port,unix:/path"``, a list of these, ``"file:/path"`` (one a line, followed
            when it changes) or a ``ServerSet``; None is the environment's ``PINLATER_SERVERS`` or 127.0.0.1:9010.
        source: name to call in, part of every claim; None is ``<program>:<host>:<pid>``.
        connect_timeout: seconds until a server counts as unreachable.
        timeout: seconds until a call fails with ``CallTimeout``, its retries included.
        retries: further tries of a call whose answer was lost. With 0, a call that any server has answered or may have
            carried out is not tried again.
        patience: seconds for which a call is tried again that was certainly not carried out; None: until ``timeout``
            is over. A program that a person waits for may want to say sooner that no server is there.
        tracing: make a span of each ``enqueue`` and ``enqueue_many``, and let the jobs carry its context; see
            ``pinlater.tracing``.
        tls: files for servers at ``tls://host:port``; None is the environment's ``PINLATER_TLS_CA``,
            ``PINLATER_TLS_CERT`` and ``PINLATER_TLS_KEY``.

    Raises:
        ConfigError: ``servers`` cannot be read; the message says what to write.
        ImportError: ``tracing`` needs ``pinlater[otel]``.
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
        tracing: bool = False,
        tls: TlsFiles | None = None,
    ) -> None:
        self._pool = Pool(ServerSet.of(servers, tls), connect_timeout)
        self._calls = Calls(source)
        self._timeout = timeout
        self._retries = retries
        self._patience = patience
        self._trace_enqueue = enqueue_tracer(is_on=tracing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
