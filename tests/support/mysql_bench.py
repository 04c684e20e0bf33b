"""Parts of the MySQL store, on the server that the tests share or on one of their own."""

import asyncio
import itertools
import os
from contextlib import suppress
from functools import partial

from pinlater.errors import ServiceError
from pinlater.server.backends.datagram_network import DatagramNetwork
from pinlater.server.backends.listeners import StoreListeners
from pinlater.server.backends.mysql import MysqlShardFactory
from pinlater.server.backends.mysql.connection import MysqlConnection, MysqlEndpoint
from pinlater.server.backends.sharded import ShardedStore, ShardSpec, meet_servers
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.peer_processes.server_notifier import ServerNotifier
from tests.support.bench import QUEUE, START_MS
from tests.support.mariadb_service import shared_service

_numbers = itertools.count(1)
_BUSY = (
    b"SELECT id FROM information_schema.processlist"
    b" WHERE user = 'pinlater' AND command <> 'Sleep' AND id <> CONNECTION_ID()"
)


def endpoint_of(service, **changes):
    return MysqlEndpoint(service.host, service.port, service.user, service.password)._replace(**changes)


def fresh_prefix():
    """Return a prefix of database names that nobody else has."""
    return f"test{os.getpid()}_{next(_numbers)}_"


def make_fleet(endpoints, clock, *, prefix, connections=8, **options):
    """Return a store with a shard at each of the endpoints; to be made in the loop that uses it."""
    factory = MysqlShardFactory(StoreOptions(3, clock, **options), connections=connections, database_prefix=prefix)
    fleet = ShardedStore("mysql", factory)
    fleet.update([ShardSpec(str(number), endpoint) for number, endpoint in enumerate(endpoints, 1)])
    return fleet


def make_notifier(broker, group, endpoint, name):
    """Return what notifies the other servers of a broker's jobs; its shards keep their list."""
    listeners = StoreListeners((endpoint.host, endpoint.port), partial(meet_servers, group))
    return ServerNotifier(DatagramNetwork(listeners, name), broker)


class ConnectionKills:
    """Kills connections of servers, one after the other.

    Args:
        endpoint: of the database server.
        lot: says which, and when.

    Attributes:
        kills: how many connections were killed in the middle of a statement.
        failed_commits: how many transactions of the servers that report to ``on_commit`` have failed.
    """

    def __init__(self, endpoint, lot):
        self._endpoint = endpoint
        self._lot = lot
        self.kills = 0
        self.failed_commits = 0

    def on_commit(self, stats):
        self.failed_commits += stats.is_failed

    async def until(self, is_over):
        """Kill one after the other."""
        while not is_over():
            connection = await MysqlConnection.open(self._endpoint)
            with suppress(ServiceError):
                [(rows, _, _)] = await connection.run(_BUSY)
                if rows:
                    await connection.run(b"KILL %d" % self._lot.choice(rows)[0])
                    self.kills += 1
            connection.close()
            await asyncio.sleep(self._lot.uniform(0.01, 0.05))


def with_servers(scenario, count=1, *, queues=(QUEUE,), endpoint=None, prefix=None):
    """Run ``scenario(*servers)`` with servers on one shard that has these queues; their clock stands still.

    Args:
        scenario: a coroutine function; what it returns is returned.
        count: how many servers.
        queues: which are created before.
        endpoint: of the shard; None: the server that the tests share.
        prefix: of the names of databases; None: one that nobody else has.
    """

    async def run():
        databases = prefix or fresh_prefix()
        at = endpoint or endpoint_of(shared_service())
        servers = [make_fleet([at], lambda: START_MS, prefix=databases) for _ in range(count)]
        try:
            for queue in queues:
                await servers[0].create_queue(queue)
            return await scenario(*servers)
        finally:
            await asyncio.gather(*(server.close() for server in servers))

    return asyncio.run(run())
