"""When a process last reached a server, and when it last failed to; in shared memory, for the health checks."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic_ns

_SUCCESS_NS, _FAILURE_NS = range(2)
CONTACT_WORDS = 2


class Contact:
    """Records one process's contact with its servers.

    Args:
        words: memory of two 64-bit words.
    """

    def __init__(self, words: memoryview | None = None) -> None:
        self._words = memoryview(bytearray(8 * CONTACT_WORDS)).cast("Q") if words is None else words

    def record_success(self) -> None:
        """Record that a server answered now, whatever the answer."""
        self._words[_SUCCESS_NS] = monotonic_ns()

    def record_failure(self) -> None:
        """Record that no server could be reached now, or one did not answer."""
        self._words[_FAILURE_NS] = monotonic_ns()

    @property
    def success_ns(self) -> int:
        """When a server last answered; monotonic, 0 if never."""
        return self._words[_SUCCESS_NS]

    @property
    def failure_ns(self) -> int:
        """When contact with a server last failed; monotonic, 0 if never."""
        return self._words[_FAILURE_NS]


def contact_problem(contacts: Iterable[Contact]) -> str:
    """Say for how long no server was reached; "" if one was reached after the last failure of any process.

    Only the latest event of all processes counts: the one of a process with a long job is out of date.
    """
    known = list(contacts)
    success_ns = max(contact.success_ns for contact in known)
    failure_ns = max(contact.failure_ns for contact in known)
    if not success_ns:
        return "no server reached yet"
    if failure_ns > success_ns:
        return f"the last contact with a server failed; none reached for {(monotonic_ns() - success_ns) / 1e9:.0f} s"
    return ""
