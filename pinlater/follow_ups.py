"""Follow-up jobs: each is enqueued once in a run of the job that wants it."""

from __future__ import annotations

_MOST_CHARACTERS = 200


def follow_up_key(descriptor: str, run: int, use: str) -> str:
    """Return the unique key of a follow-up: a second one is not stored while the first waits or runs.

    Args:
        descriptor: of the job that wants it.
        run: how many runs that job has had before; each has follow-ups of its own.
        use: what this one is kept under.

    Raises:
        ValueError: the name is too long.
    """
    key = f"{descriptor}/{run}/{use}"
    if len(key) > _MOST_CHARACTERS:
        raise ValueError(f"the name of a follow-up job is too long, {len(use)} characters: {use[:60]!r}...")
    return key
