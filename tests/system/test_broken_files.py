"""Files that a server reads again when they change, while they are broken: the processes that replace others go on."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.support.apache import DeclaredError
from tests.support.server import PASSWORD_HASH, ServerProcess, wait_for
from tests.support.shared_stores import redis_settings

LIMITED = 429
ADMIN = "pinlater-server: admin"


def kill(server, title):
    os.kill(server.child(title).pid, signal.SIGKILL)


def reload(server, _title):
    server.process.send_signal(signal.SIGHUP)


def replace(server, end, title="pinlater-server"):
    """End the process with that title, and wait for the next one."""
    former = server.child(title).pid

    def is_over():
        return server.process.poll() is not None or [one.pid != former for one in server.children(title)] == [True]

    end(server, title)
    wait_for(is_over)
    assert server.process.poll() is None, server.log


def limited(rate):
    return json.dumps({"queues": [{"name": "mail", "queueConfig": {"maxJobsPerSecond": rate}}]})


def is_paused(server):
    with server.client() as client:
        try:
            client.dequeueJobs(queueName="mail", limit=1)
        except DeclaredError as error:
            return error.code == LIMITED
        return False


@pytest.mark.parametrize("end", [kill, reload])
@pytest.mark.parametrize("harm", [lambda file: file.write_text('{"queues": ['), Path.unlink])
def test_limits_that_were_read_last_hold(tmp_path, end, harm):
    file = tmp_path / "queues.json"
    file.write_text(limited(5))
    server = ServerProcess(tmp_path / "server", QUEUE_CONFIG_FILE_PATH=file)
    try:
        with server.client() as client:
            client.createQueue(name="mail")
        file.write_text(limited(0))
        wait_for(lambda: is_paused(server))
        harm(file)
        replace(server, end)
        assert is_paused(server)
        file.write_text(limited(5))
        wait_for(lambda: not is_paused(server))
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("end", [kill, reload])
def test_the_shards_that_were_read_last_are_used(tmp_path, end):
    settings = redis_settings(tmp_path)
    server = ServerProcess(tmp_path / "server", **settings)
    try:
        with server.client() as client:
            client.createQueue(name="mail")
            client.enqueueJobs(queueName="mail", jobs=[{"body": b"x"}])
        Path(settings["BACKEND_CONFIG"]).write_text("{")
        replace(server, end)
        with server.client() as client:
            assert client.getJobCount(queueName="mail", jobState=0) == 1
    finally:
        assert server.stop() == 0


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")
@pytest.mark.parametrize("end", [kill, reload])
def test_the_dashboard_keeps_its_certificate(tmp_path, end):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(make, check=True, capture_output=True, timeout=60)
    trusted = ssl.create_default_context(cafile=cert)
    server = ServerProcess(
        tmp_path / "server", DASHBOARD="true", ADMIN_TLS_CERT=cert, ADMIN_TLS_KEY=key, ADMIN_PASSWORD_HASH=PASSWORD_HASH
    )
    try:
        wait_for(lambda: "dashboard, health checks and metrics on https" in server.log)
        cert.write_text("no certificate")
        replace(server, end, ADMIN)
        url = f"https://127.0.0.1:{server.admin_port}/livez"
        with urllib.request.urlopen(url, timeout=60, context=trusted) as page:
            assert page.read() == b"ok\n"
    finally:
        assert server.stop() == 0
