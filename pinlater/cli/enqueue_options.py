"""Options of ``pinlater enqueue`` in groups; each group is checked and passed to the command as one argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.backoffs import BACKOFF, parse_backoff
from pinlater.cli.command import option_group
from pinlater.durations import DURATION, Duration, parse_duration

if TYPE_CHECKING:
    from pinlater.model.policy import Policy

_TIME: dict[str, Any] = {"type": Duration(min=0, min_open=True), "metavar": DURATION}

_POLICY = {
    "backoff": click.option(
        "--backoff", type=parse_backoff, metavar=BACKOFF, help="Delay before the next attempt.  [default: class]"
    ),
    "job_timeout": click.option("--job-timeout", help="Time limit of a run.  [default: class]", **_TIME),
    "stall_after": click.option(
        "--stall-after", help="Time limit without a sign of progress.  [default: class]", **_TIME
    ),
    "give_up_after": click.option(
        "--give-up-after", help="Time from now after which no attempt begins.  [default: class]", **_TIME
    ),
}
_UNIQUE = {
    "unique": click.option(
        "--unique", metavar="KEY", help="Store nothing while a job with this key is pending or running in the queue."
    ),
    "unique_until": click.option(
        "--unique-until",
        type=click.Choice(["finished", "started"]),
        help="With --unique: when the key is free again: when its job has finished, or as soon as it has started.  "
        "[default: finished]",
    ),
    "unique_for": click.option(
        "--unique-for",
        type=parse_duration,
        metavar=DURATION,
        help="With --unique: keep the key taken for this time at least, even if the job finishes earlier.",
    ),
    "on_duplicate": click.option(
        "--on-duplicate",
        type=click.Choice(["keep", "replace", "debounce"]),
        help="With --unique: what to do with a job of the key that has not started: keep it, replace it, or replace it "
        "and put it off by --delay from now (debounce).  [default: keep]",
    ),
    "max_delay": click.option(
        "--max-delay",
        type=parse_duration,
        metavar=DURATION,
        help="With --on-duplicate debounce: longest time that a job is put off in all.",
    ),
}


def _parsed_rate(text: str) -> str:
    from pinlater.model.rates import parse_rate

    try:
        parse_rate(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
    return text


_SHARED = {
    "key": click.option(
        "--key", help="What jobs of the queue share, such as a customer. Jobs of different keys take turns."
    ),
    "running_per_key": click.option(
        "--running-per-key",
        type=click.IntRange(min=1),
        help="With --key: how many jobs of the key run at once, at most.  [default: no limit]",
    ),
    "in_order": click.option(
        "--in-order",
        is_flag=True,
        default=None,
        help="With --key: jobs of the key run one after the other, in the order of their enqueues.",
    ),
    "rate_per_key": click.option(
        "--rate-per-key",
        type=_parsed_rate,
        metavar="RATE",
        help="With --key: the highest rate at which jobs of the key start, such as 10/s, 100/m or 1000/h.  [default: "
        "no limit, or that of the key]",
    ),
}


def _policy(given: dict[str, Any]) -> Policy | None:
    from pinlater.model.policy import make_policy

    return make_policy(**{"timeout" if name == "job_timeout" else name: value for name, value in given.items()})


def _checked_unique_key(given: dict[str, Any]) -> dict[str, Any]:
    _require("--unique", given, [name for name in _UNIQUE if name != "unique"])
    if "max_delay" in given and given.get("on_duplicate") != "debounce":
        raise click.UsageError("--max-delay is for --on-duplicate debounce alone.")
    return given


def _require(option: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse options about a key if the key is missing."""
    for name in names:
        if name in given and option.removeprefix("--") not in given:
            raise click.UsageError(f"--{name.replace('_', '-')} is about the key of {option}, which is missing.")


def check_shared_key(given: Mapping[str, Any], *, has_classes: bool) -> None:
    """Check the options about the key that jobs share.

    Args:
        given: the options that were given.
        has_classes: whether the key may come from a job class.

    Raises:
        UsageError: the options contradict each other, or the key is missing.
    """
    if not has_classes:
        _require("--key", given, ["running_per_key", "in_order", "rate_per_key"])
    if "in_order" in given and given.get("running_per_key", 1) != 1:
        raise click.UsageError("--in-order lets the jobs of a key run one at a time; leave out --running-per-key.")


with_policy = option_group("policy", _POLICY, _policy)
"""Adds the options of a ``Policy``."""

with_unique_key = option_group("unique", _UNIQUE, _checked_unique_key)
"""Adds the options about a unique key."""

with_shared_key = option_group("shared", _SHARED, dict)
"""Adds the options about the key that jobs share."""
