"""Enqueue: nothing -> PENDING."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.server.backends.contract import NewJob
from pinlater.server.backends.sqlite.queries import insert_jobs
from pinlater.server.backends.sqlite.transaction import Transaction

ROWS_PER_STATEMENT = 100


class EnqueueRequest(NamedTuple):
    """Jobs for one queue; all are stored, or none."""

    queue_id: int
    jobs: Sequence[NewJob]


def enqueue(transaction: Transaction, requests: Sequence[EnqueueRequest]) -> list[int]:
    """Store the jobs; return each request's first id, the others follow it."""
    return [_enqueue_one(transaction, request) for request in requests]


def _enqueue_one(transaction: Transaction, request: EnqueueRequest) -> int:
    queue_id, jobs = request
    first_id = transaction.take_ids(len(jobs))
    now = transaction.now
    for start in range(0, len(jobs), ROWS_PER_STATEMENT):
        chunk = jobs[start : start + ROWS_PER_STATEMENT]
        parameters: list[object] = [queue_id, now]
        for local_id, (body, priority, run_after, attempts, status) in enumerate(chunk, first_id + start):
            parameters += (local_id, priority, now if run_after is None else run_after, attempts, status, body)
        transaction.run(insert_jobs(len(chunk)), parameters)
    return first_id
