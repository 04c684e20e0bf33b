"""The pages that every supervisor has: whether it lives, and whether it is of use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pinlater_supervisor.listener import Unavailable

if TYPE_CHECKING:
    from pinlater_supervisor.listener import HttpListener


def add_health(listener: HttpListener, why_unready: Callable[[], str]) -> None:
    """Add `/livez`, answered as long as the loop turns, and `/readyz`, which says what `why_unready` does.

    What is wrong with children or servers is no reason to restart the master, so it is none for `/livez`.
    """

    def readyz() -> bytes:
        if reason := why_unready():
            raise Unavailable(reason)
        return b"ok\n"

    listener.route("/livez", lambda: b"ok\n")
    listener.route("/readyz", readyz)
