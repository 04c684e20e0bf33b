"""Pages of lists whose rows are all in memory: which page an address asks for, and its rows."""

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
        rows: its rows.
        number: its number, from 1.
        pages: number of pages of the list; at least 1.
    """

    rows: Sequence[T]
    number: int
    pages: int


def page_of(request: Request, rows: Sequence[T]) -> ListPage[T]:
    """Return the page of a list that a request asks for.

    Raises:
        RequestRefused: the page is not a valid number.
    """
    which = int(number("page", query_text(request, "page", 9) or "1", 1, 10**6, int))
    start = (which - 1) * PER_PAGE
    return ListPage(rows[start : start + PER_PAGE], which, max(-(-len(rows) // PER_PAGE), 1))
