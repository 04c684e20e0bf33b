"""What a Redis server lets a shard do: its settings, users, permissions and encryption."""

import asyncio
import contextlib
import logging
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.records import IdempotencyKey, JobFilter
from pinlater.server.backends.redis import RedisEndpoint, ServerChannels
from pinlater.server.backends.sharded import ShardUnreachable
from pinlater.server.backends.tls_files import TlsFiles
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.openssl import certificates
from tests.support.ports import free_port
from tests.support.redis_service import RedisService
from tests.support.server import wait_for
from tests.support.waiting import until

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "stores-redis.md"


def test_settings_that_can_cost_jobs_are_warned_of_once(bench, service, caplog):
    shard = bench.shard(service)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            bench.run(shard.ping())
            with service.client() as client:
                client.client_kill_filter(skipme=True, _type="normal")
    assert caplog.text.count("shard 1: appendonly is off, and there are no snapshots: a restart loses every job") == 1


def test_a_server_that_keeps_its_settings_to_itself_is_named(bench, service, caplog):
    with service.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-config")
    with caplog.at_level(logging.WARNING):
        bench.run(bench.shard(service).ping())
    assert "CONFIG GET was refused" in caplog.text


def test_a_server_that_does_not_tell_its_size_stays_connected(bench, service, shard):
    bench.run(shard.enqueue_jobs(QUEUE, [new_job()]), shard.ping())
    with service.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-info")
        with pytest.raises(UnknownError, match=r"does not tell its size: .*'info'"):
            bench.run(shard.size())
        client.execute_command("ACL", "SETUSER", "default", "+info")
    assert shard.connections == 2


def test_a_password_is_needed_where_one_is_set(bench, tmp_path):
    with RedisService(tmp_path / "closed") as service:
        with service.client() as client:
            client.config_set("requirepass", "secret")
        with pytest.raises(ShardUnreachable, match="uthentication"):
            bench.run(bench.shard(service).ping())
        bench.run(bench.shard_at(RedisEndpoint(("127.0.0.1", service.port), password="secret")).ping())
        with pytest.raises(ShardUnreachable):
            bench.run(bench.shard_at(RedisEndpoint(("127.0.0.1", service.port), password="wrong")).ping())


@pytest.mark.parametrize("lost", ["-@write", "-zadd", "resetkeys"])
def test_a_shard_whose_user_has_lost_a_permission_counts_as_one_that_does_not_answer(bench, service, shard, lost):
    """New jobs then go to others, and it is found out when it is mended."""
    endpoint = RedisEndpoint(("127.0.0.1", service.port), username="plain", password="x")
    with service.client() as client:
        client.execute_command("ACL", "SETUSER", "plain", "on", ">x", "+@all", "~*", "&*")
        plain = bench.shard_at(endpoint)
        bench.run(plain.enqueue_jobs(QUEUE, [new_job()]), plain.ping())
        client.execute_command("ACL", "SETUSER", "plain", lost)
        with pytest.raises(ShardUnreachable):
            bench.run(plain.enqueue_jobs(QUEUE, [new_job()]))
        if lost != "-zadd":  # a probe cannot try everything
            with pytest.raises(ShardUnreachable):
                bench.run(plain.ping())
        client.execute_command("ACL", "SETUSER", "plain", "+@all", "~*")
        bench.run(plain.ping(), plain.enqueue_jobs(QUEUE, [new_job()]))


async def _subscribe(channels):
    running = asyncio.ensure_future(channels.run(lambda _: None, lambda: None))
    await until(lambda: channels._channels["1"]._is_subscribed)
    running.cancel()


def test_a_user_of_its_own_may_do_what_the_documents_say(bench, service):
    (rules,) = re.findall(r"^ACL SETUSER pinlater on >secret (.*)$", GUIDE.read_text(), re.MULTILINE)
    with service.client() as client:
        client.execute_command("ACL", "SETUSER", "pinlater", "on", ">secret", *rules.split())
    endpoint = RedisEndpoint(("127.0.0.1", service.port), username="pinlater", password="secret")
    channels = ServerChannels().of("a")
    shard = bench.shard_at(endpoint, channels=channels)
    bench.run(_subscribe(channels))
    bench.run(shard.create_queue(QUEUE))
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job(unique_key="one", status="s"), new_job(attempts=1)]))
    assert len(bench.take(shard)) == 2
    assert bench.run(shard.read_clock()) > 0
    assert bench.run(shard.size()).used_bytes > 0
    assert bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(names[0])], [ack_of(names[1], status="no")])).changed == 2
    assert bench.run(shard.retry_failed_jobs(QUEUE, 1, 1, None, 10)) == 1
    assert bench.run(shard.scan_jobs(QUEUE, JobFilter(PENDING), 10, None)).jobs
    assert bench.run(shard.release_claims(QUEUE, "worker")) == 0
    assert bench.run(shard.reap_expired(10, server_age_ms=10**9, quiet_ms=1)) == []
    bench.run(shard.collect_finished(0, 0, 10))
    bench.run(shard.delete_queue(QUEUE))
    with service.client() as client:
        assert client.acl_log() == [], "nothing was refused"


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="needs redis-cli")
def test_a_shard_without_unfinished_jobs_is_seen_to_be_empty_as_the_documents_say(bench, service):
    (command,) = re.findall(r"^\$ redis-cli -h redis3 (.*)$", GUIDE.read_text(), re.MULTILINE)
    shard = bench.shard(service, "3")
    bench.run(shard.create_queue(QUEUE))

    def lines():
        words = ["sh", "-c", f"redis-cli -p {service.port} {command}"]
        return subprocess.run(words, stdout=subprocess.PIPE, check=False).stdout.splitlines()

    for number in range(10):
        key = IdempotencyKey(b"%d:p1" % number, 60_000)  # its key looks like that of jobs
        bench.run(shard.enqueue_jobs(QUEUE, [new_job(priority=1 + number % 3)], once=key))
    assert [line[-3:] for line in sorted(lines())] == [b":p1", b":p2", b":p3"]
    names = [job.descriptor for job in bench.take(shard)]
    assert [line[-7:] for line in lines()] == [b":claims"]
    bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in names], []))
    assert lines() == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_connections_are_encrypted_and_certificates_checked(bench, tmp_path):
    ca, cert, key = certificates(tmp_path)
    port = free_port()
    options = {"tls_port": str(port), "tls_cert_file": cert, "tls_key_file": key, "tls_ca_cert_file": ca}
    with RedisService(tmp_path / "encrypted", **options):
        shard = bench.shard_at(RedisEndpoint(("127.0.0.1", port), tls=TlsFiles(ca, cert, key)))

        def reaches():
            with contextlib.suppress(ShardConnectionFailed):  # no answer in time, on a busy machine
                bench.run(shard.ping())
                return True
            return False

        wait_for(reaches)
        bench.run(shard.create_queue(QUEUE))
        assert len(bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))) == 1
        for tls in (TlsFiles(None, cert, key), TlsFiles(ca), None):
            with pytest.raises(ShardUnreachable):
                bench.run(bench.shard_at(RedisEndpoint(("127.0.0.1", port), tls=tls)).ping())
