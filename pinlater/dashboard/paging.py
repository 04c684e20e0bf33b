"""Pages of lists whose rows are all known: which one an address asks for, and what is on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from starlette.requests import Request

from pinlater.dashboard.forms import number, query_text

PER_PAGE = 50

T = TypeVar("T")


class ListPage(NamedTuple, Generic[T]):
    """A page of a list.

    Attributes:
        rows: what is on it.
        number: its number; the first one is 1.
        pages: number of pages of the list; at least 1.
    """

    rows: Sequence[T]
    number: int
    pages: int


def page_of(request: Request, rows: Sequence[T]) -> ListPage[T]:
    """Return the page of a list that a request asks for.

    Raises:
        RequestRefused: there can be no such page.
    """
    which = int(number("page", query_text(request, "page", 9) or "1", 1, 10**6, int))
    start = (which - 1) * PER_PAGE
    return ListPage(rows[start : start + PER_PAGE], which, max(-(-len(rows) // PER_PAGE), 1))
