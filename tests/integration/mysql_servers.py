"""Several servers on one database, and their claims."""

import asyncio
import itertools

from pinlater.server.backends.records import Claim
from tests.support.bench import QUEUE, FakeClock
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet

SERVERS = 3
_claims = itertools.count(1)


def claim(lease_ms=60_000):
    return Claim(f"host:1:1:worker:{next(_claims)}", lease_ms)


def with_servers(scenario, *, shards=1, count=SERVERS, prefix=None):
    """Run ``scenario(servers, clock)`` with several stores of one endpoint, as several servers have them."""

    async def run():
        clock, names = FakeClock(), prefix or fresh_prefix()
        endpoints = [endpoint_of(shared_service())] * shards
        servers = [make_fleet(endpoints, clock, prefix=names, connections=6) for _ in range(count)]
        await asyncio.gather(*(server.create_queue(QUEUE) for server in servers))
        try:
            return await scenario(servers, clock)
        finally:
            await asyncio.gather(*(server.close() for server in servers))

    return asyncio.run(run())
