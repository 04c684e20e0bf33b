"""Job notifications between servers: a server that makes jobs claimable publishes that, and the others subscribe.

A server that asks running jobs to stop publishes that, too. The broker decides which new jobs are published: those that
no dequeue waits for at this server.

Nothing depends on a message: if one is lost, a waiting dequeue finds the job at its next poll.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.asyncio import Connection
from redis.exceptions import RedisError

from pinlater.errors import ServiceError
from pinlater.server.backends.job_notifications import JobLocation, JobNotifications
from pinlater.server.backends.redis.connection import CONNECT_SECONDS
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.redis.script_calls import ScriptRunner

log = logging.getLogger(__name__)

_PUBLISH_INTERVAL_SECONDS = 0.005
"""Shortest time between two messages of a server about the same queue."""

_IDLE_SECONDS = 5.0
"""A subscription that is silent for this long is pinged; after twice as long, it is closed."""

_RECONNECT_SECONDS = (0.1, 2.0)
"""First and longest pause before reconnecting; it doubles each time."""

_CANCELLED = (b"", b"cancelled")
"""Stand in the fields for queue and time; a field with descriptors follows, so older versions drop the message."""

_CANCELLED_AT_ONCE = 500
"""Most descriptors in a message."""


class JobChannel:
    """Publishes and receives job notifications of one shard.

    A server that is alone on a shard learns that nobody else subscribes, and publishes nothing until somebody does.

    Args:
        scripts: runs commands on the shard.
        endpoint: endpoint of the shard's server.
        notifications: called for what other servers publish; None: nothing is published or received.
    """

    def __init__(self, scripts: ScriptRunner, endpoint: RedisEndpoint, notifications: JobNotifications | None) -> None:
        self._name = scripts.name
        self._endpoint = endpoint
        self._channel = scripts.shard_key("arrivals")
        self._command = scripts.command
        self._notifications = notifications or JobNotifications()
        self._is_enabled = notifications is not None
        self._server_id = uuid.uuid4().hex.encode()
        self._is_alone = False
        self._is_subscribed = False
        self._is_failure_logged = False
        self._to_publish: dict[str, int | None] = {}
        self._cancelled: list[str] = []
        self._publisher: asyncio.Task[None] | None = None
        self._subscriber: asyncio.Task[None] | None = None

    def subscribe(self) -> None:
        """Start the subscription, unless it was started already."""
        if self._is_enabled and self._subscriber is None:
            self._set_alone(is_alone=False)
            self._subscriber = asyncio.create_task(self._run_subscriber())

    async def close(self) -> None:
        """Stop publishing and receiving."""
        self._set_alone(is_alone=True)
        tasks = [task for task in (self._publisher, self._subscriber) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Publishing

    def publish(self, queue: str, due_ms: int | None = None) -> None:
        """Publish that a queue has a job, and when it falls due in epoch milliseconds; None: it is claimable now."""
        if self._is_alone or not self._is_enabled:
            return
        known = self._to_publish.get(queue, due_ms)
        self._to_publish[queue] = None if due_ms is None or known is None else min(due_ms, known)
        self._start_publisher()

    def _set_alone(self, *, is_alone: bool) -> None:
        """Record whether no other server listens; if so, nothing is published."""
        self._is_alone = is_alone
        if not is_alone:
            self._notifications.publishers[self._name] = self.publish
        elif self._notifications.publishers.get(self._name) == self.publish:
            del self._notifications.publishers[self._name]

    def publish_cancelled(self, descriptors: Sequence[str]) -> None:
        """Publish that running jobs were asked to stop."""
        if descriptors and self._is_enabled and not self._is_alone:
            self._cancelled += descriptors
            self._start_publisher()

    def _start_publisher(self) -> None:
        if self._publisher is None:
            self._publisher = asyncio.create_task(self._run_publisher())

    async def _run_publisher(self) -> None:
        try:
            while self._to_publish or self._cancelled:
                batch, self._to_publish = self._to_publish, {}
                cancelled, self._cancelled = self._cancelled, []
                for start in range(0, len(cancelled), _CANCELLED_AT_ONCE):
                    await self._publish(_cancel_message(self._server_id, cancelled[start : start + _CANCELLED_AT_ONCE]))
                for queue, due_ms in batch.items():
                    await self._publish(_message(self._server_id, queue, due_ms))
                await asyncio.sleep(_PUBLISH_INTERVAL_SECONDS)
        finally:
            self._publisher = None

    async def _publish(self, message: bytes) -> None:
        try:
            receivers = await self._command("PUBLISH", self._channel, message)
        except ServiceError as error:
            log.debug("shard %s: a job notification was not published: %s", self._name, error)
        else:
            self._set_alone(is_alone=receivers <= self._is_subscribed)

    # Receiving

    async def _run_subscriber(self) -> None:
        pause, longest = _RECONNECT_SECONDS
        while True:
            failure = ""
            try:
                await self._receive_until_failure()
            except (RedisError, OSError, TimeoutError, ServiceError) as error:
                failure = str(error) or "no answer"
            except Exception:
                log.exception("shard %s: a job notification could not be processed", self._name)
            if self._is_subscribed:
                self._is_subscribed, pause = False, _RECONNECT_SECONDS[0]
            if failure and not self._is_failure_logged:  # only once: the shard may be down for long
                log.warning(
                    "shard %s: job notifications of other servers are not received, so waiting dequeues poll: %s",
                    self._name,
                    failure,
                )
                self._is_failure_logged = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _receive_until_failure(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await self._endpoint.subscription(CONNECT_SECONDS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SUBSCRIBE", self._channel)
                await connection.read_response(disable_decoding=True)
            self._is_subscribed = True
            # From now on, others publish even if they were alone before. Earlier messages may have been missed.
            greeted = await self._command("PUBLISH", self._channel, _message(self._server_id, "", None))
            self._set_alone(is_alone=greeted <= 1)
            self._is_failure_logged = False
            self._notifications.on_gap()
            await self._receive(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _receive(self, connection: Connection) -> None:
        is_pinged = False
        while True:
            answer = await connection.read_response(disable_decoding=True, timeout=_IDLE_SECONDS)
            if answer is None:
                if is_pinged:
                    raise TimeoutError("no answer to a PING")
                await connection.send_command("PING")
            is_pinged = answer is None
            if answer is not None and answer[0] == b"message":
                self._handle(answer[2])

    def _handle(self, message: Any) -> None:
        try:
            sender, *fields = message.split(b" ")
            heard = self._reader(*fields)
        except (TypeError, ValueError):
            return  # from a later version with other fields, or from another program
        if sender != self._server_id:
            if self._is_alone:
                self._set_alone(is_alone=False)
            heard()

    def _reader(self, queue: bytes, due: bytes, *others: bytes) -> Callable[[], None]:
        """Return the function that handles a message with these fields.

        Raises:
            TypeError, ValueError: this version does not know such a message.
        """
        if others:
            (names,) = others
            if (queue, due) != _CANCELLED:
                raise ValueError(queue)
            return partial(self._notifications.on_cancelled, names.decode().split(","))
        name, due_ms = queue.decode(), int(due) if due else None
        if not name:
            return lambda: None  # a greeting
        return partial(self._notifications.on_jobs, name, due_ms, [JobLocation(self._name)])


def _cancel_message(server_id: bytes, descriptors: Sequence[str]) -> bytes:
    return b" ".join((server_id, *_CANCELLED, ",".join(descriptors).encode()))


def _message(server_id: bytes, queue: str, due_ms: int | None) -> bytes:
    return b" ".join((server_id, queue.encode(), b"" if due_ms is None else b"%d" % due_ms))
