"""Tell from its arguments whether a call may be sent again after its answer was lost."""

from __future__ import annotations

from typing import Any


def always(_: Any) -> bool:
    """Return True."""
    return True


def never(_: Any) -> bool:
    """Return False."""
    return False


def all_checkpoints_fenced(arguments: Any) -> bool:
    """Tell whether each checkpoint carries its claim."""
    return all(checkpoint.claimDescriptor for checkpoint in arguments.request.requests)


def claims_nothing(arguments: Any) -> bool:
    """Tell whether a dequeue changes nothing: repeating any other would claim more than the jobs of the lost answer."""
    return bool(arguments.request.dryRun) and arguments.request.jobAckRequest is None
