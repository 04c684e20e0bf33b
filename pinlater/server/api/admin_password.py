"""The password that deletes queues."""

from __future__ import annotations

import asyncio

from pinlater.errors import PasswordInvalid
from pinlater.model.password import verify_password
from pinlater.server.api.concurrency_limit import Turnstile

_MOST_WAITING = 4


class AdminPassword:
    """What calls are checked against.

    Args:
        stored: its hash; None or empty: there is none, and none is right.
    """

    def __init__(self, stored: str | None) -> None:
        self._stored = stored
        self._checking = Turnstile("a check of the password", _MOST_WAITING)

    async def check(self, given: str | None) -> None:
        """Return if it is the right one.

        Raises:
            PasswordInvalid: it is not.
            NoHealthyShards: too many are checked already.
        """
        if not self._stored:
            raise PasswordInvalid("this server has no ADMIN_PASSWORD_HASH, so nobody may delete queues")
        async with self._checking.passed():  # hashing is slow, and takes much memory, on purpose
            right = await asyncio.to_thread(verify_password, given or "", self._stored)
        if not right or given is None:
            raise PasswordInvalid("the admin password is wrong")
