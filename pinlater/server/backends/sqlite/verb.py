"""Verbs of the writer: what a transaction does for all requests of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple

from pinlater.server.backends.sqlite.transaction import SqliteTransaction

_Arguments = TypeVarTuple("_Arguments")
_Reply = TypeVar("_Reply")

Verb = Callable[[SqliteTransaction, Sequence[Any]], Sequence[Any]]
"""Carries out all requests of one kind in a transaction; returns a result for each."""


def one_by_one(
    carry_out: Callable[[SqliteTransaction, *_Arguments], _Reply],
) -> Callable[[SqliteTransaction, Sequence[tuple[*_Arguments]]], list[_Reply]]:
    """Make a verb from a function that carries out one request, which is the tuple of its other arguments."""

    @wraps(carry_out)
    def verb(transaction: SqliteTransaction, requests: Sequence[tuple[*_Arguments]]) -> list[_Reply]:
        return [carry_out(transaction, *request) for request in requests]

    return verb
