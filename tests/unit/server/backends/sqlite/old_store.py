"""Stores as older versions have left them."""

import sqlite3

from pinlater.server.backends.sqlite.queries import QUERIES, schema


def make_old_store(path, version):
    """Make a store of a version, with a queue; return an open connection to it."""
    path.parent.mkdir(parents=True)
    old = sqlite3.connect(path, isolation_level=None)
    steps = "\n".join(map(schema, range(1, version + 1)))
    old.executescript(f"BEGIN;\n{steps}\nPRAGMA user_version = {version};\nCOMMIT;")
    old.execute(QUERIES["create_queue"], ("emails", 1))
    return old
