"""Health checks of every supervisor: liveness and readiness."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pinlater_supervisor.listener import Unavailable

if TYPE_CHECKING:
    from pinlater_supervisor.listener import HttpListener


def add_health(listener: HttpListener, unready_reason: Callable[[], str]) -> None:
    """Add `/livez`, answered as long as the loop runs, and `/readyz`, answered 503 with the `unready_reason` if any.

    Trouble with children or servers is no reason to restart the master, so `/livez` ignores it.
    """

    def readyz() -> bytes:
        if reason := unready_reason():
            raise Unavailable(reason)
        return b"ok\n"

    listener.route("/livez", lambda: b"ok\n")
    listener.route("/readyz", readyz)
