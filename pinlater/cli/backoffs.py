"""Backoffs on the command line, such as ``exponential:first=2,cap=600``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pinlater.model.backoff import Backoff
    from pinlater.model.policy import Policy

BACKOFF = "KIND:NAME=NUMBER,..."


def parse_backoff(text: str) -> Backoff:
    """Parse a backoff."""
    import msgspec

    from pinlater.model.backoff import Constant, Exponential, Linear

    kind, _, given = text.partition(":")
    numbers = dict(pair.partition("=")[::2] for pair in given.split(",") if pair)
    try:
        backoff: Backoff = msgspec.convert({**numbers, "kind": kind}, Constant | Linear | Exponential, strict=False)
        unknown = numbers.keys() - set(backoff.__struct_fields__)  # type: ignore[attr-defined] # all of these are structs
        if not unknown:
            return backoff
        error = f"{kind} has no {', '.join(sorted(unknown))}"
    except msgspec.ValidationError as invalid:
        error = str(invalid)
    raise click.BadParameter(
        f"{text!r}: {error}. Write constant:seconds=60, linear:first=1,step=10 or exponential:first=2,cap=600."
    )


def policy_text(policy: Policy) -> str:
    """Format the policy of a job for people."""
    import msgspec

    parts = []
    if policy.backoff is not None:
        numbers = msgspec.structs.asdict(policy.backoff)
        kind = type(policy.backoff).__name__.lower()
        parts.append(f"backoff {kind}:{','.join(f'{name}={number:g}' for name, number in numbers.items())}")
    parts += [f"{name} {seconds:g} s" for name, seconds in policy.limits.items()]
    return "  ".join(parts)
