"""The client for blocking programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pinlater.client.base_client import BaseClient
from pinlater.client.pool import Pool
from pinlater.client.servers import ServerSet
from pinlater.client.timeouts import check_timeouts
from pinlater.client.tls import TlsFiles
from pinlater.client.tracing_hooks import enqueue_tracer
from pinlater.protocol.operations import Calls


class Client(BaseClient):
    """Client of a set of servers; all threads of a program can share one, and it survives a fork.

    ::

        with Client() as client:
            handle = client.enqueue(SendWelcomeEmail(user_id=42), delay=60)

    A call that fails for a transient reason is retried, after growing, jittered waits of at most a quarter of a second.
    If the call was certainly not carried out (no server could be reached, the server was stopping, or no shard of the
    store answered), it is retried until ``timeout`` is over, so a restart of a server fails no call. If it may have
    been carried out, it is retried at most ``retries`` times, and only if a repeat is harmless (so never a dequeue) or
    the server recognizes it: enqueues, imports, retries and deletions carry an idempotency key, under which the store
    keeps their result for some minutes, so they are carried out only once. ``timeout`` limits all tries together, so no
    call hangs.

    Args:
        servers: ``"host:port,tls://host:port,unix:/path"``, a list of these, ``"file:/path"`` (one a line, followed
            when it changes) or a ``ServerSet``; None: ``PINLATER_SERVERS`` in the environment, or 127.0.0.1:9010.
        source: name that is sent with calls and is part of every claim; None: ``<program>:<host>:<pid>``.
        connect_timeout: seconds until a server counts as unreachable.
        timeout: seconds until a call fails with ``CallTimeout``, its retries included.
        retries: further tries of a call whose answer was lost. With 0, a call that any server has answered or may have
            carried out is not retried.
        patience: seconds for which a call that was certainly not carried out is retried; None: until ``timeout`` is
            over. An interactive program may want to report sooner that no server answers.
        tracing: create a span for each ``enqueue`` and ``enqueue_many``, and send its context with the jobs; see
            ``pinlater.tracing``.
        tls: files for servers at ``tls://host:port``; None: those named by ``PINLATER_TLS_CA``,
            ``PINLATER_TLS_CERT`` and ``PINLATER_TLS_KEY`` in the environment.

    Raises:
        ConfigError: ``servers`` cannot be read; the message says what to write.
        ValueError: a time-out is not above 0, or longer than a day.
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
        check_timeouts(connect_timeout=connect_timeout, timeout=timeout)
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
