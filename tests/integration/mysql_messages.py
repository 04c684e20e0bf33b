"""Jobs that run and wait for messages, and what the tables of messages have."""

import asyncio
import itertools

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import MessageWait
from pinlater.server.backends.records import Claim
from tests.support.bench import FAR_MS, QUEUE, checkpoint_of, new_job

OTHER = "thumbnails"
NAME = "sizes"
_claims = itertools.count(1)


def claim():
    return Claim(f"host:1:1:worker:{next(_claims)}", 120_000)


async def take(server, queue=QUEUE, limit=100):
    """Claim jobs; return their names, and the claim."""
    held = claim()
    return [job.descriptor for job in (await server.dequeue_jobs(queue, limit, held)).jobs], held.descriptor


async def running(server, **options):
    """Return a job that runs, and its claim."""
    [name] = await server.enqueue_jobs(QUEUE, [new_job(**options)])
    [taken], held = await take(server)
    assert taken == name
    return name, held


def sleep(server, name, held, wait, **options):
    waits_for = [MessageWait(*wait)]
    item = checkpoint_of(name, claim=held, move_to_pending=True, run_after_ms=FAR_MS, waits_for=waits_for, **options)
    return server.checkpoint_jobs(QUEUE, [item])


async def read(server, name, of=NAME):
    return await server.read_messages(JobDescriptor.parse(name), of, 0, 10_000)


class Tables:
    """The tables of a shard, as they are.

    Args:
        connection: to its server.
        prefix: of the names of databases.
    """

    def __init__(self, connection, prefix):
        self._connection = connection
        self._database = f"{prefix}1"

    def bind(self, statement):
        return statement.format(db=self._database).encode()

    async def run(self, *statements):
        return [result.rows for result in await self._connection.run(*map(self.bind, statements))]

    async def left(self):
        """Return how many rows the tables of messages and children have."""
        names = ("messages", "children", "deleted_inboxes")
        rows = await self.run(*(f"SELECT COUNT(*) FROM {{db}}.{name}" for name in names))
        return tuple(found[0][0] for found in rows)

    async def until_locked_out(self):
        """Wait until a transaction waits for a lock of this connection's."""
        waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        while True:
            await asyncio.sleep(0.2)  # asked again within a tenth of a second, even by another test, it shows the same
            if (await self.run(waiting))[0]:
                return
