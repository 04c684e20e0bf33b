"""The pages of the navigation bar, and the keys that open them."""

from __future__ import annotations

from typing import NamedTuple


class NavigationPage(NamedTuple):
    """A page of the navigation bar; pressing ``g`` and then ``key`` opens it."""

    path: str
    name: str
    key: str


NAVIGATION = (
    NavigationPage("/", "Queues", "q"),
    NavigationPage("/failing", "Failing", "f"),
    NavigationPage("/periodic", "Periodic", "p"),
    NavigationPage("/classes", "Classes", "c"),
    NavigationPage("/workers", "Workers", "w"),
    NavigationPage("/server", "Server", "s"),
)

ROW_KEYS = (
    ("j", "next row"),
    ("k", "previous row"),
    ("Enter", "open the row"),
    ("x", "select the row"),
    ("[", "previous page of a list"),
    ("]", "next page of a list"),
)
PAGE_KEYS = (
    ("/", "search"),
    ("t", "times: ago, local, UTC"),
    ("?", "these keys"),
    ("Esc", "close"),
)
