"""Settings of servers and workers that are real programs, on an empty store that several servers share."""

import json

from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import fresh_prefix
from tests.support.redis_service import shared_redis_service


def redis_settings(folder, shards=1):
    """Return what a server needs for an empty Redis store; ends all that there were."""
    service = shared_redis_service("servers")
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
