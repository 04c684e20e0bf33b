"""A store in memory, and strategies for the jobs in it and for dequeues; its statements are remembered."""

import sqlite3
import weakref
from itertools import chain, starmap

from hypothesis import strategies as st

from pinlater.server.backends.sqlite.claim import SqliteClaimRequest
from pinlater.server.backends.sqlite.database import SCHEMA_VERSION
from pinlater.server.backends.sqlite.families import Families
from pinlater.server.backends.sqlite.messages import messages_of_row
from pinlater.server.backends.sqlite.queries import schema
from pinlater.server.backends.sqlite.transaction import IdBlock, QueueTraits, SqliteTransaction

NOW = 1_000_000
PREFIXES = ("q:s1:p1:", "q:s1:p2:")
CLAIMS = ("h:1:1:a:1", "h:1:1:b:2", 'h:1:1:"ü\\:3', "h:1:1:\0:4")

queue_ids = st.integers(1, 2)
priorities = st.integers(1, 2)
jobs = st.tuples(
    queue_ids,
    st.sampled_from([0, 0, 0, 1, 1, 2]),
    priorities,
    st.integers(NOW - 3, NOW + 3),
    st.sampled_from(CLAIMS),
    st.binary(max_size=300),
    st.integers(1, 2),
)
dequeues = st.builds(
    SqliteClaimRequest,
    queue_ids,
    st.just(PREFIXES),
    st.integers(0, 12),
    st.integers(0, 700),
    st.sampled_from(CLAIMS),
    st.integers(1, 1000),
    st.booleans(),
    st.sampled_from([None, None, None, 3]),
)


class Store:
    """A store in memory, with the jobs of an example."""

    def __init__(self, rows):
        # The garbage collector, which may run in any thread, closes the connection of a store that is in a cycle.
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self.connection.close)
        for version in range(1, SCHEMA_VERSION + 1):
            self.connection.executescript(schema(version))
        for local_id, (queue_id, state, priority, run_after, claim, body, attempts) in enumerate(rows, 1):
            row = (local_id, queue_id, state, priority, run_after, claim if state == 1 else None, body, attempts)
            self.connection.execute(
                "INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at, attempts_allowed,"
                " attempts_remaining, claim, body, claim_expires) VALUES (?1, ?2, ?3, ?4, ?5, 1, 1, 2, ?8, ?6, ?7,"
                " iif(?3 = 1, 9, NULL))",
                row,
            )
        self._queues = QueueTraits()
        self.statements = []
        self.connection.set_trace_callback(self.statements.append)
        self.transaction = SqliteTransaction(self.connection.cursor(), NOW, IdBlock(), self._queues, Families())

    def content(self):
        return self.connection.execute("SELECT * FROM jobs ORDER BY id").fetchall()

    def messages(self):
        """Return the kinds and payloads of all messages by their ids; the order within a commit is left open."""
        rows = self.connection.execute(
            "SELECT number, id, payload, kind, sizes FROM messages ORDER BY number"
        ).fetchall()
        messages = list(chain.from_iterable(starmap(messages_of_row, rows)))
        assert [message.number for message in messages] == list(range(1, len(messages) + 1))
        return {message.id: (message.kind, message.payload) for message in messages}

    def make_children(self, queue_id, waits_for):
        """Give all jobs of a queue one parent, which sleeps in another queue; return its id."""
        parent = 1000
        self.connection.execute(
            "INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at, attempts_allowed,"
            " attempts_remaining, body, waits_for) VALUES (?, 9, 0, 1, ?, 1, 1, 2, 2, '', ?)",
            (parent, NOW + 10**9, waits_for),
        )
        self.connection.execute(
            "INSERT INTO families (last_id, first_id, parent_id, parent, name, position, is_open)"
            " SELECT id, id, ?1, 'x:s1:p1:1000', 'join', id, state <= 1 FROM jobs WHERE queue_id = ?2",
            (parent, queue_id),
        )
        self._queues.with_parents.add(queue_id)
        self.statements.clear()
        return parent
