"""How many files a server may have open: each connection is one."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("pinlater.server")

SPARE = 300
"""Open files besides client connections: the store, its databases, the log, libraries."""


def allow_connections(count: int) -> int:
    """Raise the limit of open files of this process and its children to hold ``count`` connections.

    Shells set a soft limit of 1024 and let a process raise it. Where the hard limit is too low, log it.

    Returns:
        How many connections to accept: ``count``, or fewer if the limit is too low. With more, the store could not open
        a file or connect to its database any more.
    """
    wanted = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return count
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # the system enforces a limit below the hard one
        most = soft
    if most >= wanted:
        return count
    allowed = min(count, max(most - SPARE, most // 4))
    log.warning(
        "the limit of open files is %d, enough for %d connections but not for MAX_CONNECTIONS=%d; "
        "raise the hard limit (ulimit -Hn, LimitNOFILE=) or lower MAX_CONNECTIONS",
        most,
        allowed,
        count,
    )
    return allowed
