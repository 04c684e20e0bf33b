"""The address of a server: ``host:port``, ``tls://host:port`` or ``unix:/path``."""

from __future__ import annotations

from typing import NamedTuple

from pinlater.errors import ConfigError

DEFAULT_PORT = 9010


class Address(NamedTuple):
    """Where a server listens.

    Attributes:
        host: host name, IPv4 or IPv6 address; for a Unix socket, its path.
        port: TCP port; 0 for a Unix socket.
        kind: ``tcp``, ``tls`` or ``unix``.
    """

    host: str
    port: int
    kind: str = "tcp"

    def __str__(self) -> str:
        if self.kind == "unix":
            return f"unix:{self.host}"
        prefix = "tls://" if self.kind == "tls" else ""
        return f"{prefix}[{self.host}]:{self.port}" if ":" in self.host else f"{prefix}{self.host}:{self.port}"

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.kind == "tls"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse ``host:port``, ``[ipv6]:port``, or a bare host, which means port 9010.

        A prefix ``tls://`` means TLS. ``unix:/path`` is a Unix socket on this machine.

        Raises:
            ConfigError: the text is none of these; the message says what to write.
        """
        given = text.strip()
        if given.startswith("unix:"):
            path = given.removeprefix("unix:")
            if not path.startswith("/"):
                raise ConfigError(
                    f"{text!r} is no server address; write the whole path, such as unix:/run/pinlater.sock"
                )
            return cls(path, 0, "unix")
        host, port = _split(given.removeprefix("tls://"))
        number = int(port) if port.isascii() and port.isdigit() else 0
        if not host or not 1 <= number <= 65535 or any(letter in " \t/@,[]" for letter in host):
            raise ConfigError(
                f"{text!r} is no server address; write host:port, such as queue1.example.com:9010 or [::1]:9010, "
                "tls://host:port or unix:/path"
            )
        return cls(host, number, "tls" if given.startswith("tls://") else "tcp")


def _split(text: str) -> tuple[str, str]:
    """Return host and port, both empty if the text is malformed; an IPv6 address needs brackets."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if closed and not rest:
            return host, str(DEFAULT_PORT)
        return (host, rest[1:]) if rest.startswith(":") else ("", "")
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, str(DEFAULT_PORT)
    return ("", "") if ":" in host else (host, port)
