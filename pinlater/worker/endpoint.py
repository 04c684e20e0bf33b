"""Address of the health checks."""

from __future__ import annotations

from pinlater_supervisor import HttpListener, is_address_missing

from pinlater.errors import AddressMissing, ConfigError

_LOOPBACK = "127.0.0.1"


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; ``PORT`` or ``:PORT`` alone means loopback, and port 0 any free port.

    Raises:
        ConfigError: the address is invalid.
    """
    host, _, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise ConfigError(f"--health {text}: write HOST:PORT, such as 127.0.0.1:9998, or PORT to listen on 127.0.0.1")
    return host or _LOOPBACK, int(port)


def listen(text: str) -> HttpListener:
    """Return a listener on the address; see ``parse_address``.

    Raises:
        AddressMissing: the address does not belong to this machine, or not yet.
        ConfigError: the address is invalid or taken.
    """
    host, port = parse_address(text)
    try:
        return HttpListener(host, port)
    except OSError as error:
        kind = AddressMissing if is_address_missing(error) else ConfigError
        raise kind(f"--health {text}: cannot listen: {error.strerror}; choose another address") from error
