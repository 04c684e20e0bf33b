"""New jobs: which shard gets which."""

from __future__ import annotations

import hashlib
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pinlater.server.backends.fleet.asking import PATIENCE_SECONDS, no_healthy_shards
from pinlater.server.backends.fleet.member import Member
from pinlater.server.backends.fleet.roster import Roster
from pinlater.server.backends.fleet.shard import ShardUnreachable

_J = TypeVar("_J")

Store = Callable[[Member, Sequence[_J]], Awaitable[list[str]]]
"""Stores jobs on a shard; returns their descriptors."""


async def store(roster: Roster, jobs: Sequence[_J], keys: Sequence[str | None], call: Store[_J]) -> list[str]:
    """Store jobs; return their descriptors in the same order.

    Jobs without a key go to one shard, whichever answers. One with a key goes to the shard that the key says and to
    no other, so that it is unique as long as the shards stay the same. Those with keys go first: should the call fail
    half-way and be made again, then what was stored is there by its key, and nothing is stored twice.

    Args:
        roster: the shards.
        jobs: what to store.
        keys: the unique key of each; None: it has none.
        call: stores some of them on a shard.

    Raises:
        NoHealthyShards: no shard takes jobs at present.
        ServiceError: of a shard.
    """
    if not any(keys):
        return await _store_anywhere(roster, jobs, call)
    names = [""] * len(jobs)
    for member, places in _places(roster, keys):
        some = [jobs[place] for place in places]
        stored = await (_store_anywhere(roster, some, call) if member is None else call(member, some))
        for place, name in zip(places, stored, strict=True):
            names[place] = name
    return names


async def _store_anywhere(roster: Roster, jobs: Sequence[_J], call: Store[_J]) -> list[str]:
    members = [member for member in roster.enqueueable() if member.is_well]
    random.shuffle(members)
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number, member in enumerate(members):
        if number and time.monotonic() > deadline:
            break
        try:
            return await call(member, jobs)
        except ShardUnreachable:  # nothing was stored: another shard may have them
            continue
    raise no_healthy_shards()


def _places(roster: Roster, keys: Sequence[str | None]) -> list[tuple[Member | None, list[int]]]:
    """Return the places of the jobs that go to each shard; those of jobs without a key come last, with None."""
    members = roster.enqueueable()
    if not members:
        raise no_healthy_shards()
    groups: defaultdict[Member | None, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        groups[None if key is None else _home_of(key, members)].append(place)
    return sorted(groups.items(), key=lambda group: group[0] is None)


def _home_of(key: str, members: Sequence[Member]) -> Member:
    """Return the shard that a key says: when a shard comes or goes, few keys move."""
    if len(members) == 1:
        return members[0]
    return max(members, key=lambda member: rank(member.name, key))


def rank(shard: str, key: str) -> bytes:
    """Return what the shards are compared by when a key chooses one of them."""
    return hashlib.blake2b(f"{shard}\0{key}".encode(), digest_size=8).digest()
