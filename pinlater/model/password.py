"""Hashing of the admin password, stored as ``scrypt$<N>$<r>$<p>$<salt>$<hash>`` (salt and hash in base64)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

_COST = 1 << 17, 8, 1  # scrypt's N, r and p
_SALT_BYTES, _HASH_BYTES = 16, 32
_MAX_MEMORY_BYTES = 1 << 30


def hash_password(text: str) -> str:
    """Hash a password; deliberately takes about half a second and 128 MiB."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = _scrypt(text, salt, _COST, _HASH_BYTES)
    return "$".join(("scrypt", *map(str, _COST), _text(salt), _text(digest)))


def verify_password(text: str, stored: str) -> bool:
    """Tell whether ``text`` is the password behind a hash made by ``hash_password``.

    A malformed hash matches no password. The comparison takes constant time.
    """
    try:
        scheme, cost, block_size, parallel, salt, digest = stored.split("$")
        expected = _bytes(digest)
        if scheme != "scrypt" or not expected:
            return False
        found = _scrypt(text, _bytes(salt), (int(cost), int(block_size), int(parallel)), len(expected))
    except (ValueError, TypeError, OverflowError, MemoryError):  # all of them from bad numbers or bad base64
        return False
    return hmac.compare_digest(found, expected)


def _scrypt(text: str, salt: bytes, cost: tuple[int, int, int], length: int) -> bytes:
    n, r, p = cost
    password = text.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY_BYTES, dklen=length)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
