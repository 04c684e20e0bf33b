"""The baseline for Redis: the same hashes and sorted sets, with pipelines of the driver and nothing around it.

This loop skips what our scripts check atomically (who holds a job, how much fits into an answer).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import redis

ATTEMPTS, LEASE_MS = 4, 30_000


class BareRedis:
    """One database that nobody else uses."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._next_id = 1
        self._claims = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def insert(self, bodies: Sequence[bytes], *, delay_ms: int = 0) -> None:
        """Store jobs with one pipeline."""
        now, first = _now_ms(), self._next_id
        self._next_id += len(bodies)
        members = [f"{number:012}" for number in range(first, self._next_id)]
        line = f"0 1 {ATTEMPTS} {ATTEMPTS} {now} {now + delay_ms} {now} 0"
        with self._client.pipeline() as pipeline:
            pipeline.hset("bodies", items=_pairs(members, bodies))
            pipeline.hset("jobs", items=_pairs(members, [line] * len(members)))
            pipeline.zadd("pending", dict.fromkeys(members, now + delay_ms))
            pipeline.execute()

    def drain(self, batch_size: int, *, most: int) -> int:
        """Claim and acknowledge batch after batch, up to ``most`` jobs; return how many."""
        done = 0
        while done < most and (members := self._claim(min(batch_size, most - done))):
            self._succeed(members)
            done += len(members)
        return done

    def _claim(self, limit: int) -> list[bytes]:
        now = _now_ms()
        self._claims += 1
        members: Any = self._client.zrange("pending", "-inf", str(now), byscore=True, offset=0, num=limit)
        if not members:
            return []
        lines: Any = self._client.hmget("jobs", members)
        changed = [b"1%b bare:%d" % (line[1:], self._claims) for line in lines]
        with self._client.pipeline() as pipeline:
            pipeline.zremrangebyrank("pending", 0, len(members) - 1)
            pipeline.hset("jobs", items=_pairs(members, changed))
            pipeline.zadd("claims", dict.fromkeys(members, now + LEASE_MS))
            pipeline.hmget("bodies", members)
            pipeline.execute()
        return list(members)

    def _succeed(self, members: Sequence[bytes]) -> None:
        now = _now_ms()
        lines: Any = self._client.hmget("jobs", list(members))
        with self._client.pipeline() as pipeline:
            pipeline.hset("jobs", items=_pairs(members, [b"2" + line[1:] for line in lines]))
            pipeline.zrem("claims", *members)
            pipeline.zadd("succeeded", dict.fromkeys(members, now))
            pipeline.zadd("finished", dict.fromkeys(members, now))
            pipeline.execute()


def _pairs(fields: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    return [part for pair in zip(fields, values, strict=True) for part in pair]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
