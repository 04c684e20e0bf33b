"""The set of servers a client may use, and which of them it uses now."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence

from pinlater.client.address import DEFAULT_PORT, Address
from pinlater.client.server_file import ServerFile
from pinlater.client.tls import CA_KEY, TlsFiles
from pinlater.errors import ConfigError, NoHealthyShards, ShardConnectionFailed

ENVIRONMENT_KEY = "PINLATER_SERVERS"

STORE_OUT_OF_REACH = (NoHealthyShards, ShardConnectionFailed)
"""Errors of a server that cannot reach its store; another one may be able to."""

_FIRST_PENALTY_SECONDS = 0.1
_LONGEST_PENALTY_SECONDS = 5.0

_KEPT_SECONDS = 1.0
"""How long connections to the only address are kept after some were given up."""


class ServerSet:
    """A set of interchangeable servers; thread-safe.

    A client starts with a random server and stays with it as long as it works. After one that could not be reached, it
    goes on with the next one. That server is tried last for 0.1 s, twice as long after each further failure, at most
    5 s; it is still tried if no other is left.
    One that left a call unanswered, or could not reach its store, is tried last for the full 5 s. One that accepts
    connections, but closes them without an answer, counts as unreachable: perhaps it is a proxy whose server is gone.
    Each forked process starts with a new random server.

    Args:
        addresses: the servers, or a function that returns the current ones.
        tls: files for ``tls://`` addresses; None: those of the environment.
        clock: returns monotonic seconds.
        chance: source of randomness.

    Attributes:
        tls: files for ``tls://`` addresses.

    Raises:
        ConfigError: there are no servers, or files for TLS are given although no server uses TLS.
    """

    def __init__(
        self,
        addresses: Sequence[Address] | Callable[[], Sequence[Address]],
        *,
        tls: TlsFiles | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        fixed = addresses if callable(addresses) else tuple(dict.fromkeys(addresses))
        self._addresses = fixed if callable(fixed) else lambda: fixed
        self.tls = TlsFiles.from_environment() if tls is None else tls
        self._clock = clock
        self._chance = chance
        self._reset()
        if not self._addresses():
            raise ConfigError(f"no server given; write host:port, such as localhost:{DEFAULT_PORT}")
        if self.tls.are_given and all(address.kind == "tcp" for address in self._addresses()):
            raise ConfigError(
                f"{self._addresses()[0]}: there are files for TLS ({CA_KEY}), but this address is plain; "
                f"write tls://{self._addresses()[0]}"
            )

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._current: Address | None = None
        self._penalties: dict[Address, tuple[float, float]] = {}  # until when, how long
        self._kept_until = 0.0
        self._pid = os.getpid()

    @classmethod
    def parse(cls, text: str, tls: TlsFiles | None = None) -> ServerSet:
        """Read ``host:port,tls://host:port,unix:/path`` or ``file:/path/of/a/server/file``.

        Raises:
            ConfigError: the text is neither; the message says what to write.
        """
        if text.startswith("file:"):
            return cls.from_file(text.removeprefix("file:"), tls)
        return cls([Address.parse(part) for part in text.split(",") if part.strip()], tls=tls)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], tls: TlsFiles | None = None) -> ServerSet:
        """Follow a file with one ``host:port`` a line; see ``ServerFile``."""
        return cls(ServerFile(path).addresses, tls=tls)

    @classmethod
    def from_environment(cls, tls: TlsFiles | None = None) -> ServerSet:
        """Read ``PINLATER_SERVERS``; the default is this machine's port 9010."""
        text = os.environ.get(ENVIRONMENT_KEY, "").strip()
        if not text:
            return cls([Address("127.0.0.1", DEFAULT_PORT)], tls=tls)
        try:
            return cls.parse(text, tls)
        except ConfigError as error:
            raise ConfigError(f"{ENVIRONMENT_KEY}: {error}") from error

    @classmethod
    def of(cls, servers: str | Sequence[str] | ServerSet | None, tls: TlsFiles | None = None) -> ServerSet:
        """Make a set from a client's ``servers``; None: from the environment. A set keeps its own files for TLS.

        Raises:
            ConfigError: there are no servers; the message says what to write.
        """
        if servers is None:
            return cls.from_environment(tls)
        if isinstance(servers, ServerSet):
            return servers
        try:
            text = servers if isinstance(servers, str) else ",".join(servers)
        except TypeError:
            raise ConfigError(
                f"{servers!r} names no servers; write a text such as 'localhost:{DEFAULT_PORT}', or several in a list"
            ) from None
        return cls.parse(text, tls)

    def addresses(self) -> Sequence[Address]:
        """Return the servers that are currently in the set."""
        return self._addresses()

    def candidates(self) -> list[Address]:
        """Return all servers in the order in which to try them."""
        addresses = self._addresses()
        if self._pid != os.getpid():
            self._reset()
        with self._lock:
            if self._current not in addresses:
                self._current = addresses[int(self._chance() * len(addresses))]
            start = addresses.index(self._current)
            ring = [*addresses[start:], *addresses[:start]]
            now = self._clock()
            return sorted(ring, key=lambda address: max(self._penalties.get(address, (0.0, 0.0))[0], now))

    def worked(self, address: Address) -> None:
        """Mark a server as reachable; the client stays with it."""
        with self._lock:
            self._current = address
            self._penalties.pop(address, None)

    def failed(self, address: Address) -> None:
        """Mark a server as unreachable; it is tried last for a while, and then after the next one of the set."""
        addresses = self._addresses()
        with self._lock:
            if self._current == address and address in addresses:
                self._current = addresses[(addresses.index(address) + 1) % len(addresses)]
            _, last = self._penalties.get(address, (0.0, _FIRST_PENALTY_SECONDS / 2))
            penalty = min(last * 2, _LONGEST_PENALTY_SECONDS)
            self._penalties[address] = (self._clock() + penalty, penalty)

    def leave(self, address: Address) -> bool:
        """Try other servers first for a while; return whether to give up the connections to this one.

        This is for a server that left a call unanswered, perhaps because it hangs, or that cannot reach its store. That
        it accepts connections proves nothing: the kernel does that for it. The only address of a set may be that of
        several servers, behind a load balancer, so its connections are given up as well, but once a second at most.
        """
        with self._lock:
            now = self._clock()
            if self._current == address:
                self._current = None
            self._penalties[address] = (now + _LONGEST_PENALTY_SECONDS, _LONGEST_PENALTY_SECONDS)
            if len(self._addresses()) > 1:
                return True
            is_due = now >= self._kept_until
            if is_due:
                self._kept_until = now + _KEPT_SECONDS
            return is_due
