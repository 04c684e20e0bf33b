"""Stores that several servers share: an empty one of each kind, for servers and workers that are real programs."""

import atexit
import functools
import json
import shutil
import tempfile
from pathlib import Path

from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import fresh_prefix
from tests.support.redis_service import RedisService


@functools.cache
def _redis_service():
    """One for all tests of this process."""
    folder = tempfile.mkdtemp(prefix="pinlater-redis-")
    service = RedisService(Path(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(service.close)
    return service


def redis_settings(folder, shards=1):
    """Return what a server needs for an empty Redis store; ends all that there were."""
    service = _redis_service()
    with service.client() as client:
        client.flushall()
    master = {"host": "127.0.0.1", "port": service.port}
    file = folder / "redis-shards.json"
    entries = [{"name": str(number), "shardConfig": {"master": master}} for number in range(1, shards + 1)]
    file.write_text(json.dumps({"shards": entries}))
    return {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(file)}


def mysql_settings(folder, port=None, shards=1):
    """Return what a server needs for an empty MySQL store; ``port`` leads to it, if not its own."""
    service = shared_service()
    master = {"host": service.host, "port": port or service.port}
    entry = {"master": master, "user": service.user, "passwd": service.password}
    file = folder / "mysql-shards.json"
    file.write_text(json.dumps({f"shard{number}": entry for number in range(1, shards + 1)}))
    return {"PINLATER_BACKEND": "mysql", "BACKEND_CONFIG": str(file), "MYSQL_DATABASE_PREFIX": fresh_prefix()}


SHARED_STORES = {"mysql": mysql_settings, "redis": redis_settings}
"""Name, as in PINLATER_BACKEND -> makes the settings of a server on an empty store, given a folder."""
