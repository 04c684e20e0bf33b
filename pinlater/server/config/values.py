"""Parse the text of a setting, with one parser for each type.

A parser raises ``ValueError`` with a message in two parts, "is not … ; write …", which follows ``KEY=VALUE`` in errors.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_]{1,40}")
_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SCRYPT = re.compile(r"scrypt(\$[0-9]{1,9}){3}(\$[\w+/=-]+){2}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
"""A range of addresses, or a single address."""


def text(value: str) -> str:
    """Return the text unchanged."""
    return value


def identifier(value: str) -> str:
    """Parse a text that can be part of a database name."""
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError("is not a valid prefix; write up to 40 letters, digits and underscores")
    return value


def integer(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range, both ends included."""
    limits = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"

    def read(value: str) -> int:
        number = int(value) if _INTEGER.fullmatch(value) else None
        if number is None or number < lowest or (highest is not None and number > highest):
            raise ValueError(f"is not a whole number {limits}; write such a number")
        return number

    return read


def number(unit: float = 1.0, *, zero: bool = False) -> Callable[[str], float]:
    """Return a parser of numbers, fractions allowed, that multiplies by ``unit``: 60 turns minutes into seconds."""
    limits = "of 0 or more" if zero else "above 0"

    def read(value: str) -> float:
        parsed = float(value) * unit if _NUMBER.fullmatch(value) else math.nan
        if not (math.isfinite(parsed) and (parsed > 0 or (zero and parsed == 0))):
            raise ValueError(f"is not a number {limits}; write one, such as 1 or 0.5")
        return parsed

    return read


def share(value: str) -> float:
    """Parse a share of a whole: above 0, at most 1."""
    parsed = float(value) if _NUMBER.fullmatch(value) else math.nan
    if not 0 < parsed <= 1:
        raise ValueError("is not a share; write a number above 0 and up to 1, such as 0.2")
    return parsed


def boolean(value: str) -> bool:
    """Parse true or false."""
    if value.lower() not in _TRUE + _FALSE:
        raise ValueError("is neither true nor false; write one of them")
    return value.lower() in _TRUE


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a parser of one of several words, in any case; the value is spelled as in ``allowed``."""
    words = {word.lower(): word for word in allowed}

    def read(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"is not available; write {' or '.join(allowed)}")
        return words[value.lower()]

    return read


def path(value: str) -> Path:
    """Parse a path; a leading ``~`` is the home directory."""
    if "\0" in value:
        raise ValueError("is not a path; write one without NUL")
    # Not Path.expanduser, which raises for a service user without a home directory.
    return Path(os.path.expanduser(value))  # noqa: PTH111


def base_path(value: str) -> str:
    """Parse a URL path, without the slash at its end; empty or ``/`` means none."""
    trimmed = value.rstrip("/")
    if trimmed and (not _BASE_PATH.fullmatch(trimmed) or {".", ".."} & set(trimmed.split("/"))):
        raise ValueError("is not a URL path; write a path such as /pinlater")
    return trimmed


def networks(value: str) -> tuple[Network, ...]:
    """Parse addresses or ranges of addresses, separated by commas; empty means none."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in value.split(",") if part.strip())
    except ValueError:
        raise ValueError(
            "contains an invalid address; write addresses or ranges, such as 127.0.0.1,10.0.0.0/8"
        ) from None


def optional_path(value: str) -> Path | None:
    """Parse a path; empty means none."""
    return path(value) if value else None


def password_hash(value: str) -> str | None:
    """Check the format of a scrypt hash; empty means none.

    The hash of the original service is refused: a single SHA-256 with a publicly known salt.
    """
    if not value:
        return None
    if _SHA256.fullmatch(value):
        raise ValueError(
            "is a SHA-256 hash, which is no longer accepted; create a new hash with: pinlater hash-password"
        )
    if not _SCRYPT.fullmatch(value):
        raise ValueError("is not a password hash; create one with: pinlater hash-password")
    return value
