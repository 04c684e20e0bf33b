"""An opened store, with what a server process needs to use it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.poll_of_all import PollAll
from pinlater.server.backends.server_network import ServerNetwork
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.backends.token_bucket import AcquireTokens


class OpenedStore(NamedTuple):
    """A store that was opened.

    Attributes:
        backend: the store.
        tasks: background tasks to run with it.
        description: for the log.
        notifications: passes on which jobs became claimable without a call for their queue.
        network: given the name of this server, returns what reaches the other ones; None: it is alone, or the settings
            say that they do not notify each other.
        acquire_tokens: acquires tokens of queues with a rate limit; None: only this process hands out jobs, and keeps
            the token buckets itself.
        poll_all: polls all queues, at little cost beside the work of the monitor; None: the store cannot do that.
    """

    backend: ServerStore
    tasks: Sequence[Coroutine[Any, Any, Any]]
    description: str
    notifications: JobNotifications
    network: Callable[[str], ServerNetwork] | None = None
    acquire_tokens: AcquireTokens | None = None
    poll_all: PollAll | None = None
