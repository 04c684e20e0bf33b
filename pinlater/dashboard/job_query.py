"""Query for a list of jobs: a queue, a state, and filters; the same in addresses, forms and bulk actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pinlater.dashboard.addresses import address
from pinlater.dashboard.count_cache import DISPLAY_STATES_BY_NAME, DisplayState
from pinlater.dashboard.forms import RequestRefused, number
from pinlater.model.body_patterns import body_pattern
from pinlater.model.jobs import Page

MAX_KEY_CHARACTERS = 200
_LOOKED_AT_SEPARATOR = "!"
_MOST_TEXT = 1022
"""Characters of a filter; with its slashes, a pattern has 1024."""


class JobQuery(NamedTuple):
    """Selects jobs of a queue.

    Attributes:
        queue: name of the queue; empty if none is chosen.
        display_state: state of the jobs.
        priority: their priority; None: any.
        job: name of their class; empty: any.
        argument: argument in their bodies, see ``argument_pattern``; empty: any.
        group: failure group of their last attempt; ``priority`` is ignored then; None: any.
        key: their key, shared or unique; ``group`` is ignored then, and whether jobs are due; empty: any.
        is_oldest_first: whether the list begins with the job that is due first.
    """

    queue: str
    display_state: DisplayState
    priority: int | None = None
    job: str = ""
    argument: str = ""
    group: int | None = None
    key: str = ""
    is_oldest_first: bool = False

    @property
    def regex(self) -> str | None:
        """Pattern that the server searches bodies for; None: bodies are not searched."""
        return body_pattern(self.job, self.argument) or None

    @property
    def is_filtered(self) -> bool:
        """Whether the query selects only some of the jobs in the state."""
        return any((self.priority, self.job, self.argument, self.group, self.key))

    @property
    def filters(self) -> dict[str, Any]:
        """Arguments of ``scan`` besides queue and state; without a key, also of ``count``."""
        if self.key:
            return {"key": self.key, "priority": self.priority, "body_regex": self.regex}
        if self.group is not None:
            return {"failure_group": self.group, "body_regex": self.regex}
        return {**self.display_state.filters, "priority": self.priority, "body_regex": self.regex}

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of the list's address, without those that select nothing."""
        given = {
            "queue": self.queue,
            "state": self.display_state.name,
            "priority": str(self.priority or ""),
            "class": self.job,
            "argument": self.argument,
            "group": str(self.group or ""),
            "key": self.key,
            "order": "oldest" if self.is_oldest_first else "",
        }
        return {name: value for name, value in given.items() if value}

    def link(self, **changes: str) -> str:
        """Return the path of the list, with some parameters changed."""
        return address("/jobs", self.parameters | changes)

    def __str__(self) -> str:
        """Describe the selection."""
        parts = [
            f"priority {self.priority}" if self.priority else "",
            f"class {self.job}" if self.job else "",
            f"argument {self.argument}" if self.argument else "",
            "one failure group" if self.group else "",
            f"key {self.key}" if self.key else "",
        ]
        return ", ".join([f"all {self.display_state.name} jobs", *filter(None, parts)])


def from_text(page: Page, looked_before: int) -> str:
    """Return the parameter "from" of the next page: the continuation, and how many bodies have been searched."""
    searched = "" if page.looked_at is None else f"{_LOOKED_AT_SEPARATOR}{looked_before + page.looked_at}"
    return f"{page.continuation}{searched}"


def read_from(text: str) -> tuple[str, int]:
    """Split the text of ``from_text`` into the continuation (empty for the first page) and the number.

    Raises:
        RequestRefused: the number is not a number.
    """
    continuation, _, looked_before = text.partition(_LOOKED_AT_SEPARATOR)
    return continuation, int(number("from", looked_before or "0", 0, 2**53, int))


def read_query(read: Callable[[str, int], str], priority_levels: int) -> JobQuery:
    """Read a query from an address or a form.

    Args:
        read: returns a parameter, given its name and the most characters that it may have.
        priority_levels: number of priorities.

    Raises:
        RequestRefused: there is no such state or priority.
    """
    state, priority, group = read("state", 20) or "pending", read("priority", 4), read("group", 20)
    display_state = DISPLAY_STATES_BY_NAME.get(state)
    if display_state is None:
        raise RequestRefused(400, f"there is no state {state}; use one of {', '.join(DISPLAY_STATES_BY_NAME)}")
    pattern = read("body", _MOST_TEXT)  # the filter of older versions, which may be in saved links
    return JobQuery(
        read("queue", 200),
        display_state,
        int(number("priority", priority, 1, priority_levels, int)) if priority else None,
        read("class", 200),
        read("argument", _MOST_TEXT + 2) or (f"/{pattern}/" if pattern else ""),
        int(number("group", group, 1, 2**63 - 1, int)) if group else None,
        read("key", MAX_KEY_CHARACTERS),
        read("order", 10) == "oldest",
    )
