"""What the page on Redis takes for granted: a server with the safe settings."""

from tests.support.redis_service import RedisService


def prepare(sandbox):
    service = RedisService(sandbox.folder.parent / "redis", appendonly="yes", appendfsync="always")
    sandbox.at_the_end.callback(service.close)
    sandbox.moved['"host": "redis1", "port": 6379'] = f'"host": "127.0.0.1", "port": {service.port}'
