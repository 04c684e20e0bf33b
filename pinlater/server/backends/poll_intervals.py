"""How often stores are polled for jobs that were not announced."""

from __future__ import annotations

from typing import NamedTuple


class PollIntervals(NamedTuple):
    """Seconds between two polls of a queue that dequeues wait for.

    Attributes:
        shortest: the interval while jobs arrive.
        longest: the interval after none has arrived for long.
        leeway: jobs that have been due for less are left to the dequeues that were woken for them, until the next poll.
    """

    shortest: float
    longest: float
    leeway: float = 0.0


FREQUENT_POLLS = PollIntervals(0.02, 1.5)
"""For stores whose servers are not notified of new jobs."""

POLLS_BESIDE_DATAGRAMS = PollIntervals(0.1, 1.5, leeway=0.1)
"""For stores whose servers notify each other of new jobs by datagrams, some of which may be lost."""

POLLS_BESIDE_MESSAGES = PollIntervals(2.0, 5.0, leeway=0.1)
"""For stores that themselves pass on their servers' messages, of which few are lost."""
