"""``pinlater-server`` with marks on the path of an enqueue; its first argument is the file of marks."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.marks import Marks, Target

RECEIVE = "server: receive"
FRAME = "server: split into frames"
TASK = "server: connection, task"
DECODE = "server: decode"
RULES = "server: slots, rules, broker"
HAND_OVER = "store: prepare, hand over"
BEGIN = "store: BEGIN"
STATEMENT = "store: statements"
COMMIT = "store: COMMIT with its sync"
BETWEEN = "store: between statements"
ROUND_TRIP = "store: round trips"
HAND_BACK = "store: hand back"
RESULT = "server: metrics, reply"
ENCODE = "server: encode"
SEND = "server: send, and what follows"

STAGES = (
    RECEIVE,
    FRAME,
    TASK,
    DECODE,
    RULES,
    HAND_OVER,
    BEGIN,
    STATEMENT,
    BETWEEN,
    COMMIT,
    ROUND_TRIP,
    HAND_BACK,
    RESULT,
    ENCODE,
    SEND,
)
"""Stages in the order of a call."""

STATEMENTS = (BEGIN, STATEMENT, COMMIT)
"""Stages of which one begins for each SQLite statement."""

_CONNECTION = "pinlater.server.net.connection:ClientConnection"
_BACKENDS = "pinlater.server.backends"

TARGETS = (
    Target(f"{_CONNECTION}.data_received", RECEIVE),
    Target("pinlater.protocol.framing:FrameSplitter.feed", FRAME, TASK),
    Target("pinlater.protocol.codec:Codec.decode_call", DECODE, RULES),
    Target(f"{_BACKENDS}.sqlite.store:SqliteStore.enqueue_jobs", HAND_OVER, RESULT),
    Target(f"{_BACKENDS}.mysql.shard:MysqlShard.enqueue_jobs", HAND_OVER, RESULT),
    Target(f"{_BACKENDS}.redis.shard:RedisShard.enqueue_jobs", HAND_OVER, RESULT),
    Target(f"{_BACKENDS}.mysql.connection:MysqlConnection.run", ROUND_TRIP, HAND_BACK),
    Target(f"{_BACKENDS}.redis.connection:SharedConnection.call", ROUND_TRIP, HAND_BACK),
    Target("pinlater.protocol.codec:Codec.encode_reply", ENCODE, SEND),
)


def main() -> None:
    """Run the server; its processes are forks of this one, and inherit its marks."""
    marks = Marks(Path(sys.argv.pop(1)), STAGES)
    marks.install(TARGETS)
    _mark_sqlite(marks.mark)
    from pinlater.server.program import main as serve

    serve()


def _mark_sqlite(mark: Callable[[str], None]) -> None:
    """Mark each statement of connections that are opened from now on."""

    class MarkedConnection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            mark(_STAGE_OF.get(sql[:5], STATEMENT))
            cursor = super().execute(sql, *parameters)
            mark(HAND_BACK if sql == "COMMIT" else BETWEEN)
            return cursor

        def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
            mark(STATEMENT)
            cursor = super().executemany(sql, parameters)
            mark(BETWEEN)
            return cursor

    connect = sqlite3.connect

    def connect_marked(*args: Any, **named: Any) -> sqlite3.Connection:
        return connect(*args, **{"factory": MarkedConnection} | named)

    sqlite3.connect = connect_marked  # type: ignore[assignment]


_STAGE_OF = {"BEGIN": BEGIN, "COMMI": COMMIT}
