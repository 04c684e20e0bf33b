"""Reads for several keys at once, in few statements."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends.key_rates import KeyRate
from pinlater.server.backends.key_turns import KeyedJob
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.transaction import MysqlTransaction

if TYPE_CHECKING:
    from pinlater.server.backends.mysql.keys import QueueKey

_KEYS_PER_QUERY = 30
_KEYS_PER_READ = 500


class FirstOfKey(NamedTuple):
    """The first PENDING job of a key.

    Attributes:
        local_id: its id on the shard.
        run_after: as it is stored, so below ``WAITS_FOR_KEY_MS`` if the job is let through.
        limit: the limit of its key, as it is stored.
    """

    local_id: int
    run_after: int
    limit: int | None

    @property
    def waits(self) -> bool:
        """Whether it waits for the key, as no job is let through."""
        return self.run_after >= WAITS_FOR_KEY_MS

    def is_due(self, now: int) -> bool:
        """Return whether it may be claimed."""
        return self.run_after <= now

    def as_waiting(self) -> KeyedJob:
        """Return the job as one that waits."""
        return KeyedJob(self.local_id, self.run_after - WAITS_FOR_KEY_MS, self.limit)


class StateOfKey(NamedTuple):
    """The state of a key that is read first.

    Attributes:
        first: the first PENDING job, let through or waiting; None: there is none.
        rate: state of the key's rate; None: it has none.
    """

    first: FirstOfKey | None
    rate: KeyRate | None

    @classmethod
    def parse(cls, first: bytes | str | None, rate: bytes | None) -> StateOfKey:
        """Parse the values in a row of ``states_of_keys``."""
        return cls(_parse_first(first), _parse_rate(rate))


def _parse_first(value: bytes | str | None) -> FirstOfKey | None:
    if value is None:
        return None
    local_id, run_after, limit = map(int, value.split())
    return FirstOfKey(local_id, run_after, None if limit < 0 else limit)


def _parse_rate(value: bytes | None) -> KeyRate | None:
    if value is None:
        return None
    rate, next_us = value.decode().split(" ")
    return KeyRate(rate, int(next_us))


class KeysRead(NamedTuple):
    """What was read about keys.

    Attributes:
        values: the values of each key, by the name of the query.
        results: results of the statements that were executed before.
    """

    values: dict[str, dict[QueueKey, tuple[Any, ...]]]
    results: Sequence[StatementResult]


async def read_keys(
    transaction: MysqlTransaction, reads: Mapping[str, Sequence[QueueKey]], before: Sequence[bytes] = ()
) -> KeysRead:
    """Execute statements, then queries whose results have a row for each key.

    Args:
        transaction: executes them.
        reads: the keys to read about, by the name of the query.
        before: the statements.
    """
    parts = [
        (name, keys[start : start + _KEYS_PER_READ])
        for name, keys in reads.items()
        for start in range(0, len(keys), _KEYS_PER_READ)
    ]
    queries = [_read(transaction, name, keys) for name, keys in parts]
    results = await transaction.run(*before, *queries)
    values: dict[str, dict[QueueKey, tuple[Any, ...]]] = {name: {} for name in reads}
    for (name, keys), result in zip(parts, results[len(before) :], strict=True):
        values[name].update((keys[row[0] - 1], row[1:]) for row in result.rows)
    return KeysRead(values, results[: len(before)])


def _read(transaction: MysqlTransaction, name: str, keys: Sequence[QueueKey]) -> bytes:
    if len(keys) == 1:
        return transaction.bind(f"{name}_alone", **keys[0].values)
    return transaction.bind(name, wanted=json.dumps([(key.queue_id, key.text.hex()) for key in keys]))


class JobsOfKeys(defaultdict[tuple[int, str], list[KeyedJob]]):
    """Jobs by the index of their key and the query's label for them."""

    def running(self, place: int) -> int:
        """Return how many jobs run of the key at an index."""
        return self[place, "running"][0].local_id

    def uncounted(self, keys: Iterable[QueueKey], counted: Collection[QueueKey]) -> set[QueueKey]:
        """Return those of the keys whose first waiting job has a limit, but whose running jobs are not counted."""
        firsts = ((key, next(iter(self[place, "waiting"]), None)) for place, key in enumerate(keys))
        return {key for key, first in firsts if first is not None and first.limit is not None and key not in counted}


async def read_jobs(transaction: MysqlTransaction, queries: Sequence[Iterable[bytes]]) -> JobsOfKeys:
    """Return the jobs that the queries of each key find, by the index of the key and the query's label for them."""
    unions = [
        b"("
        + b") UNION ALL (".join(part for of_key in queries[start : start + _KEYS_PER_QUERY] for part in of_key)
        + b")"
        for start in range(0, len(queries), _KEYS_PER_QUERY)
    ]
    found = JobsOfKeys(list)
    for result in await transaction.run(*unions) if unions else ():
        for place, part, *row in result.rows:
            found[place, part].append(KeyedJob(*row))
    return found
