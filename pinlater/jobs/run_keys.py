"""Idempotency keys of a run: the same in all its attempts."""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID, uuid5


def new_run_id(descriptor: str, created_at_ms: int | None, run: int) -> str:
    """Return the id of a run, from which its keys are derived.

    Args:
        descriptor: address of the job.
        created_at_ms: when it was enqueued, epoch milliseconds: a new store assigns the same descriptors again.
        run: number of earlier runs of the job.
    """
    return str(uuid5(NAMESPACE_URL, f"pinlater:{descriptor}/{created_at_ms or 0}/{run}"))


def key_of(run_id: str, name: str) -> str:
    """Return the idempotency key for a name in a run."""
    return str(uuid5(UUID(run_id), name))
