"""Policy of one job: backoff and time limits that an enqueue sets in place of its class's; stored in the body."""

from __future__ import annotations

from typing import TypedDict, Unpack

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.model.backoff import Backoff, Constant, Exponential, Linear
from pinlater.model.body_fields import DECODE_ERRORS

LONGEST_LIMIT_SECONDS = 366 * 86400.0
"""The longest time limit that a job can have: about a year."""

LIMITS = ("timeout", "stall_after", "give_up_after")
"""The fields of a ``Policy`` that are time limits."""

POLICY_FIELD = "$policy"
_FIELD_NAME = f'"{POLICY_FIELD}"'.encode()


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Backoff and time limits of one job; None means that its class's applies.

    Attributes:
        backoff: delay before the next attempt, in place of the class's ``backoff``; its ``backoff_on`` still applies.
        timeout: seconds after which ``JobTimeout`` is raised in the running job. Its process is killed 10 s later,
            unless the class sets a later ``kill_after``.
        stall_after: seconds without a sign of progress after which ``JobStalled`` is raised in the running job.
        give_up_after: seconds from the enqueue after which no attempt begins.

    Raises:
        ValueError: a time is out of range.
    """

    backoff: Constant | Linear | Exponential | None = None
    timeout: float | None = None
    stall_after: float | None = None
    give_up_after: float | None = None

    def __post_init__(self) -> None:
        for name, seconds in self.limits.items():
            if not 0 < seconds <= LONGEST_LIMIT_SECONDS:
                raise ValueError(f"{name}={seconds} is in seconds, more than 0 and at most a year")

    @property
    def limits(self) -> dict[str, float]:
        """The time limits that are set, in seconds."""
        return {name: seconds for name in LIMITS if (seconds := getattr(self, name)) is not None}


class PolicyOptions(TypedDict, total=False):
    """The fields of a ``Policy`` as keywords of an enqueue."""

    backoff: Backoff | None
    timeout: float | None
    stall_after: float | None
    give_up_after: float | None


class _Body(msgspec.Struct):
    policy: Policy | None = msgspec.field(name=POLICY_FIELD, default=None)


_decoder = msgspec.json.Decoder(_Body)
_policy_decoder = msgspec.json.Decoder(Policy)


def make_policy(**options: Unpack[PolicyOptions]) -> Policy | None:
    """Return the policy of an enqueue; None if it sets nothing.

    Raises:
        TypeError: a time limit is not a number.
        ValueError: the backoff cannot be stored with a job, or a number is out of range.
    """
    if all(value is None for value in options.values()):
        return None
    for name in LIMITS:
        seconds = options.get(name)
        if not isinstance(seconds, int | float | None) or isinstance(seconds, bool):
            raise TypeError(f"{name}={seconds!r} has to be a number of seconds")
    backoff = options.get("backoff")
    if backoff is not None and not isinstance(backoff, Constant | Linear | Exponential):
        raise ValueError(
            f"backoff={backoff!r} cannot be stored with a job: use Constant, Linear or Exponential; "
            "a backoff of your own goes into the header of the job class"
        )
    policy = Policy(**options)  # type: ignore[arg-type] # checked above
    try:
        _policy_decoder.decode(msgspec.json.encode(policy))
    except msgspec.DecodeError as error:
        raise ValueError(f"backoff={backoff} cannot be stored with a job: its numbers must be finite") from error
    return policy


def read_policy(body: bytes) -> Policy | None:
    """Return the policy in a JSON body; None if it has none.

    Raises:
        BodyInvalid: the policy is malformed, or the body is not a JSON object.
    """
    try:
        return _decoder.decode(body).policy
    except DECODE_ERRORS as error:
        raise BodyInvalid(f"the body has no valid {POLICY_FIELD}: {error}") from error


def may_have_policy(body: bytes) -> bool:
    """Tell whether a body has to be decoded to find its policy; most need not."""
    return ord("$") in body and _FIELD_NAME in body  # the first test is four times as fast, and usually decides
