"""Files that a server reads again when they change, while they are broken: the processes that replace others go on."""

import os
import shutil
import signal
import ssl
import subprocess
import urllib.request

import pytest

from tests.support.server import PASSWORD_HASH, ServerProcess, wait_for

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
