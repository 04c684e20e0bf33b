"""Check the admin password, without which no queue can be deleted."""

from __future__ import annotations

import asyncio

from pinlater.errors import PasswordInvalid
from pinlater.model.password import verify_password
from pinlater.server.api.concurrency_limit import ConcurrencyLimit

_MOST_WAITING = 4


class AdminPassword:
    """Checks the admin password of calls.

    Args:
        stored: the hash of the password; None or empty: no password is accepted.
    """

    def __init__(self, stored: str | None) -> None:
        self._stored = stored
        self._checking = ConcurrencyLimit("a password check", _MOST_WAITING)

    async def check(self, given: str | None) -> None:
        """Refuse a wrong password.

        Raises:
            PasswordInvalid: it is wrong, or the server has none.
            NoHealthyShards: too many checks are waiting.
        """
        if not self._stored:
            raise PasswordInvalid(
                "this server has no ADMIN_PASSWORD_HASH, so queues cannot be deleted; make one: pinlater hash-password"
            )
        async with self._checking.slot():  # hashing is slow and uses much memory on purpose
            right = await asyncio.to_thread(verify_password, given or "", self._stored)
        if not right or given is None:
            raise PasswordInvalid("the admin password is wrong")
