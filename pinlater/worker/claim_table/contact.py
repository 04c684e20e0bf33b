"""When a process last heard from a server, and when it last failed to; in shared memory, for the health page."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic_ns

_HEARD_NS, _FAILED_NS = range(2)
CONTACT_WORDS = 2


class Contact:
    """One process's contact with its servers.

    Args:
        words: two words of 64 bits where it is noted.
    """

    def __init__(self, words: memoryview | None = None) -> None:
        self._words = memoryview(bytearray(8 * CONTACT_WORDS)).cast("Q") if words is None else words

    def heard(self) -> None:
        """Note that a server answered now, whatever it said."""
        self._words[_HEARD_NS] = monotonic_ns()

    def failed(self) -> None:
        """Note that none could be reached now, or one did not answer."""
        self._words[_FAILED_NS] = monotonic_ns()

    @property
    def heard_ns(self) -> int:
        """When a server last answered; monotonic, 0 if never."""
        return self._words[_HEARD_NS]

    @property
    def failed_ns(self) -> int:
        """When none was reached last; monotonic, 0 if that never happened."""
        return self._words[_FAILED_NS]


def why_out_of_contact(contacts: Iterable[Contact]) -> str:
    """Say for how long no server has been heard; "" if one was heard after the last failure of any process.

    The last event of all processes counts: one that runs a long job has old news.
    """
    known = list(contacts)
    heard_ns = max(contact.heard_ns for contact in known)
    failed_ns = max(contact.failed_ns for contact in known)
    if not heard_ns:
        return "no server was reached yet"
    if failed_ns > heard_ns:
        return f"the last contact with a server failed; none was heard for {(monotonic_ns() - heard_ns) / 1e9:.0f} s"
    return ""
