"""How many files a server may have open: each connection is one."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("pinlater.server")

SPARE = 300
"""For what is no connection of a client: the store, its databases, the log, the libraries."""


def allow_connections(count: int) -> None:
    """Raise the limit of open files of this process, and of its children, so that one holds so many connections.

    Shells begin with 1024, for the sake of old programs, and let a process have more. Where they do not, the log says
    so: connections beyond the limit would wait, with no word to anybody.
    """
    wanted = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # the system has a limit of its own, below what it calls the hard one
        most = soft
    if most < wanted:
        log.warning(
            "a process may have %d files open here, enough for about %d connections, not for MAX_CONNECTIONS=%d; "
            "raise the hard limit (ulimit -Hn, LimitNOFILE=), or lower MAX_CONNECTIONS",
            most,
            max(most - SPARE, 0),
            count,
        )
