"""The set of servers a client may use, and which of them it uses now."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence

from pinlater.client.address import DEFAULT_PORT, Address
from pinlater.client.server_file import ServerFile
from pinlater.errors import ConfigError

ENVIRONMENT_KEY = "PINLATER_SERVERS"

_FIRST_PENALTY_SECONDS = 0.1
_LONGEST_PENALTY_SECONDS = 5.0


class ServerSet:
    """Servers of equal standing; safe to use from several threads.

    A client starts at a random one and stays there as long as it works. One that could not be reached comes
    last for 0.1 s, twice as long after each further failure, at most 5 s; it is still tried when no other is left.
    Each process of a fork makes its own random start.

    Args:
        addresses: the servers, or a function that returns them as they are now.
        clock: monotonic seconds.
        chance: makes the random start.
    """

    def __init__(
        self,
        addresses: Sequence[Address] | Callable[[], Sequence[Address]],
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        fixed = addresses if callable(addresses) else tuple(dict.fromkeys(addresses))
        self._addresses = fixed if callable(fixed) else lambda: fixed
        self._clock = clock
        self._chance = chance
        self._begin()
        if not self._addresses():
            raise ConfigError(f"no server given; write host:port, such as localhost:{DEFAULT_PORT}")

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._current: Address | None = None
        self._penalties: dict[Address, tuple[float, float]] = {}  # until when, how long
        self._pid = os.getpid()

    @classmethod
    def parse(cls, text: str) -> ServerSet:
        """Read ``host:port,host:port`` or ``file:/path/of/a/server/file``.

        Raises:
            ConfigError: the text is neither; the message says what to write.
        """
        if text.startswith("file:"):
            return cls.from_file(text.removeprefix("file:"))
        return cls([Address.parse(part) for part in text.split(",") if part.strip()])

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> ServerSet:
        """Follow a file with one ``host:port`` a line; see ``ServerFile``."""
        return cls(ServerFile(path).addresses)

    @classmethod
    def from_environment(cls) -> ServerSet:
        """Read ``PINLATER_SERVERS``; the default is this machine's port 9010."""
        text = os.environ.get(ENVIRONMENT_KEY, "").strip()
        if not text:
            return cls([Address("127.0.0.1", DEFAULT_PORT)])
        try:
            return cls.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{ENVIRONMENT_KEY}: {error}") from error

    @classmethod
    def of(cls, servers: str | Sequence[str] | ServerSet | None) -> ServerSet:
        """Make a set of whatever a client was given; None asks the environment."""
        if servers is None:
            return cls.from_environment()
        if isinstance(servers, ServerSet):
            return servers
        return cls.parse(servers if isinstance(servers, str) else ",".join(servers))

    def addresses(self) -> Sequence[Address]:
        """Return all servers, as they are now."""
        return self._addresses()

    def candidates(self) -> list[Address]:
        """Return all servers in the order in which to try them."""
        addresses = self._addresses()
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            if self._current not in addresses:
                self._current = addresses[int(self._chance() * len(addresses))]
            start = addresses.index(self._current)
            ring = [*addresses[start:], *addresses[:start]]
            now = self._clock()
            return sorted(ring, key=lambda address: max(self._penalties.get(address, (0.0, 0.0))[0], now))

    def worked(self, address: Address) -> None:
        """Note that a server was reached: it is the one to stay at."""
        with self._lock:
            self._current = address
            self._penalties.pop(address, None)

    def failed(self, address: Address) -> None:
        """Note that a server could not be reached."""
        with self._lock:
            _, last = self._penalties.get(address, (0.0, _FIRST_PENALTY_SECONDS / 2))
            penalty = min(last * 2, _LONGEST_PENALTY_SECONDS)
            self._penalties[address] = (self._clock() + penalty, penalty)
