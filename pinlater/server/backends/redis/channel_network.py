"""A network of Redis channels: the servers of a store publish messages to each other on its shards.

Each process subscribes to a channel of its own and to one that all share, on every shard. On the shared one it says
hello, which all others answer, and then at intervals that it is still there. A process to whose channel nobody
subscribes has left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from redis.asyncio import Connection
from redis.exceptions import RedisError

from pinlater.errors import ServiceError
from pinlater.server.backends.redis.connection import CONNECT_SECONDS, SharedConnection
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.server_network import PROCESS_ID_BYTES, new_process_id, server_of

log = logging.getLogger(__name__)

GREET_SECONDS = 10.0
KEEP_SECONDS = 30.0
"""A process that was not heard of for this long is forgotten."""

_IDLE_SECONDS = 5.0
"""A subscription that is silent for this long is pinged; after twice as long, it is closed."""

_SLOW_SECONDS = 0.1
"""A shard that has not passed on a message for this long gets others only if no other shard reaches their receiver."""

_RECONNECT_SECONDS = (0.1, 2.0)
"""First and longest pause before reconnecting; it doubles each time."""

_HELLO, _HERE = b"hello", b""
"""From a process that has just subscribed, and from one that answers or is still there."""


class ServerChannels:
    """Sends messages by the channels of a store's shards; see ``ServerNetwork``.

    Attributes:
        own_id: the id of this process; see ``of``.
    """

    def __init__(self) -> None:
        self.own_id = b""
        self._channels: dict[str, ShardChannel] = {}
        self._ids: frozenset[bytes] | None = frozenset()
        self._is_running = False
        self._receive: Callable[[bytes], None] = lambda _: None
        self._on_met: Callable[[], None] = lambda: None

    def of(self, server: str) -> ServerChannels:
        """Return this network, with an id for a process of a server."""
        self.own_id = new_process_id(server)
        return self

    def add(self, channel: ShardChannel) -> None:
        """Use the channel of one more shard."""
        self._channels[channel.shard] = channel
        channel.on_change = self._forget_ids
        self._start(channel)

    def remove(self, channel: ShardChannel) -> None:
        """Use the channel of a shard no longer."""
        if self._channels.get(channel.shard) is channel:
            del self._channels[channel.shard]
            self._forget_ids()

    def _forget_ids(self) -> None:
        self._ids = None

    def _start(self, channel: ShardChannel) -> None:
        if self._is_running:
            channel.start(self.own_id, self._receive, self._on_met)

    @property
    def ids(self) -> Collection[bytes]:
        if self._ids is None:
            self._ids = frozenset().union(*(channel.peers for channel in self._channels.values()))
        return self._ids

    async def run(self, receive: Callable[[bytes], None], on_met: Callable[[], None]) -> None:
        self._receive, self._on_met, self._is_running = receive, on_met, True
        for channel in self._channels.values():
            self._start(channel)
        while True:
            await asyncio.sleep(GREET_SECONDS)
            for channel in self._channels.values():
                channel.greet()

    def send(self, message: bytes, to: bytes) -> None:
        reaching = [channel for channel in self._channels.values() if to in channel.peers]
        if reaching:
            min(reaching, key=lambda channel: channel.is_slow).send(message, to)

    def send_to_all(self, message: bytes) -> None:
        everybody = self.ids
        for channel in self._channels.values():
            if everybody and channel.peers.keys() == everybody and not channel.is_slow:
                channel.send_to_all(message)
                return
        for peer in everybody:
            self.send(message, peer)


class ShardChannel:
    """Sends and receives messages on one shard.

    Args:
        shard: name of the shard.
        connection: sends commands to it.
        endpoint: endpoint of its server.
        key: what the names of the channels begin with.

    Attributes:
        peers: when each process of another server was last heard of here, monotonic seconds.
        on_change: called when processes have come or left.
    """

    def __init__(self, shard: str, connection: SharedConnection, endpoint: RedisEndpoint, key: str) -> None:
        self.shard = shard
        self.peers: dict[bytes, float] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._connection = connection
        self._endpoint = endpoint
        self._key = key
        self._own_id = b""
        self._receive: Callable[[bytes], None] = lambda _: None
        self._on_met: Callable[[], None] = lambda: None
        self._unanswered = 0
        self._unanswered_since = 0.0
        self._has_failed = False
        self._is_subscribed = False
        self._is_failure_logged = False
        self._subscriber: asyncio.Task[None] | None = None

    def start(self, own_id: bytes, receive: Callable[[bytes], None], on_met: Callable[[], None]) -> None:
        """Start to receive messages; see ``ServerNetwork.run``."""
        self._own_id, self._receive, self._on_met = own_id, receive, on_met
        self._subscriber = asyncio.create_task(self._run_subscriber())

    async def close(self) -> None:
        """Receive no more messages."""
        if self._subscriber is not None:
            self._subscriber.cancel()
            await asyncio.wait([self._subscriber])

    # Sending

    @property
    def is_slow(self) -> bool:
        """Whether the shard has not passed on a message for long, or did not pass on the last one."""
        is_late = self._unanswered > 0 and time.monotonic() - self._unanswered_since > _SLOW_SECONDS
        return is_late or self._has_failed

    def greet(self) -> None:
        """Tell all others that this process is still there; forget those that have not done so for long."""
        oldest = time.monotonic() - KEEP_SECONDS
        for peer in [peer for peer, heard_at in self.peers.items() if heard_at < oldest]:
            self._forget(peer)
        if self._is_subscribed:
            self.send_to_all(_HERE)

    def _forget(self, peer: bytes) -> None:
        if self.peers.pop(peer, None) is not None:
            self.on_change()

    def send(self, message: bytes, to: bytes) -> None:
        """Send a message to one process."""
        self._publish(self._channel_of(to), message, to)

    def send_to_all(self, message: bytes) -> None:
        """Send a message to all processes."""
        self._publish(self._key, message, None)

    def _channel_of(self, process_id: bytes) -> str:
        return f"{self._key}:{process_id.hex()}"

    def _publish(self, channel: str, message: bytes, to: bytes | None) -> None:
        if not self._unanswered:
            self._unanswered_since = time.monotonic()
        self._unanswered += 1
        published = self._connection.call("PUBLISH", channel, self._with_sender(message))
        published.add_done_callback(partial(self._published, to))

    def _with_sender(self, message: bytes) -> bytes:
        return b"%b %b" % (self._own_id.hex().encode(), message)

    def _published(self, to: bytes | None, published: asyncio.Future[Any]) -> None:
        self._unanswered -= 1
        self._unanswered_since = time.monotonic()
        if published.cancelled():
            return
        error = published.exception()
        self._has_failed = error is not None
        if error is not None:
            log.debug("shard %s: a message to other servers was not published: %s", self.shard, error)
        elif to is not None and not published.result():
            self._forget(to)

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
                log.exception("shard %s: a message of another server could not be processed", self.shard)
            if self._is_subscribed:
                self._is_subscribed, pause = False, _RECONNECT_SECONDS[0]
            self.peers.clear()
            self.on_change()
            if failure and not self._is_failure_logged:  # only once: the shard may be down for long
                log.warning(
                    "shard %s: job notifications of other servers are not received, so waiting dequeues poll: %s",
                    self.shard,
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
                channels = (self._key, self._channel_of(self._own_id))
                await connection.send_command("SUBSCRIBE", *channels)
                for _ in channels:
                    await connection.read_response(disable_decoding=True)
            await self._connection.call("PUBLISH", self._key, self._with_sender(_HELLO))
            self._is_subscribed, self._is_failure_logged = True, False
            await self._receive_messages(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _receive_messages(self, connection: Connection) -> None:
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

    def _handle(self, published: bytes) -> None:
        name, _, message = published.partition(b" ")
        try:
            sender = bytes.fromhex(name.decode())
        except ValueError:
            return  # from another program
        if len(sender) != PROCESS_ID_BYTES or server_of(sender) == server_of(self._own_id):
            return
        is_new = sender not in self.peers
        self.peers[sender] = time.monotonic()
        if is_new:
            self.on_change()
            self._on_met()
        if message == _HELLO:
            self.send(_HERE, sender)
        elif message:
            self._receive(message)
