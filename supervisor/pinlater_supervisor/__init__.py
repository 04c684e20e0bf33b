"""A prefork master: pools of forked children, kept alive, watched, reloaded and drained.

It knows nothing of what the children do. See README.md beside the package.
"""

from pinlater_supervisor.child import Child
from pinlater_supervisor.child_signals import hear_again
from pinlater_supervisor.exits import EX_CONFIG, EX_UNAVAILABLE, MEMORY_CEILING, TIME_OUT, ChildExit
from pinlater_supervisor.fork import ThreadsRunningError
from pinlater_supervisor.listener import HttpListener, Unavailable, is_address_missing
from pinlater_supervisor.memory import rss_bytes
from pinlater_supervisor.pool import Pool
from pinlater_supervisor.supervisor import Supervisor
from pinlater_supervisor.watch import DUMP_SECONDS

__all__ = [
    "DUMP_SECONDS",
    "EX_CONFIG",
    "EX_UNAVAILABLE",
    "MEMORY_CEILING",
    "TIME_OUT",
    "Child",
    "ChildExit",
    "HttpListener",
    "Pool",
    "Supervisor",
    "ThreadsRunningError",
    "Unavailable",
    "hear_again",
    "is_address_missing",
    "rss_bytes",
]
