"""Where one server is: ``host:port``."""

from __future__ import annotations

from typing import NamedTuple

from pinlater.errors import ConfigError

DEFAULT_PORT = 9010


class Address(NamedTuple):
    """Host (a name, an IPv4 or an IPv6 address) and TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``, ``[ipv6]:port``, or a bare host, which means the port 9010.

        Raises:
            ConfigError: it is none of these; the message says what to write.
        """
        host, port = _split(text.strip())
        number = int(port) if port.isascii() and port.isdigit() else 0
        if not host or not 1 <= number <= 65535 or any(letter in " \t/@,[]" for letter in host):
            raise ConfigError(
                f"{text!r} is no server address; write host:port, such as queue1.example.com:9010 or [::1]:9010"
            )
        return cls(host, number)


def _split(text: str) -> tuple[str, str]:
    """Cut at the last colon; brackets keep the colons of an IPv6 address together."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if closed and not rest:
            return host, str(DEFAULT_PORT)
        return (host, rest[1:]) if rest.startswith(":") else ("", "")
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, str(DEFAULT_PORT)
    return ("", "") if ":" in host else (host, port)
