"""The configurations of proxies on the page of the dashboard: nginx and Caddy run them in front of a real server."""

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from pinlater.server.config.sources import from_file
from tests.docs.pages import PAGES, PROXIES, ROOT, blocks
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.server import PASSWORD, ServerProcess, wait_for

PAGE = ROOT / "docs" / "guides" / "dashboard.md"
SECONDS = 90
SITE = "jobs.example.com"
PERSON = "127.0.0.2"
"""Where the browser of these tests comes from: not the proxy's address, which is trusted."""

NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {cert};
        ssl_certificate_key {key};
        {block}
    }}
}}
"""
"""What surrounds the page's block on a machine: folders and a port of the test's own instead of the usual ones."""

CADDY = """
{{
    admin off
    auto_https disable_redirects
    skip_install_trust
    local_certs
}}
{block}
"""


def block_of(language):
    """Return the only block of a language in all pages."""
    (found,) = (block for page in PAGES for block in blocks(page) if block.language == language)
    return found


def program(name):
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {name})")
    return path


class Proxy:
    """A proxy that runs a block of the page.

    Args:
        folder: for its files.
        port: on which it answers, by TLS.
        command: that runs it.
        ca: path of the certificate that vouches for it.
    """

    def __init__(self, folder, port, command, ca):
        self.name = Path(command[0]).name
        self.address = f"{SITE}:{port}"
        self._port = port
        self._ca = ca
        self._log = folder / "log"
        environment = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def await_answer(self):
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.request("GET", "/pinlater/livez")
            except OSError:  # also while the certificate is not there yet
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.05)
            else:
                return

    def request(self, method, path, body=None, **headers):
        """Return the answer, read to its end as ``text``, to a request from an address that is not the proxy's."""
        plain = socket.create_connection(("127.0.0.1", self._port), SECONDS, source_address=(PERSON, 0))
        connection = http.client.HTTPConnection(self.address)
        connection.sock = plain  # so that it is closed whatever happens
        try:
            connection.sock = ssl.create_default_context(cafile=self._ca).wrap_socket(plain, server_hostname=SITE)
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer
        finally:
            connection.close()

    def post(self, path, cookie="", origin=None, **fields):
        """Send a form, as a browser that says to come from elsewhere than it does."""
        headers = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": cookie}
        headers["X_Forwarded_For"] = "198.51.100.9"
        headers["Origin"] = origin or f"https://{self.address}"
        return self.request("POST", path, urllib.parse.urlencode(fields), **headers)

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(SECONDS)
            raise


def nginx(folder, port, block):
    issued = Authority(folder, "ca").issue("proxy", f"DNS:{SITE}")
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, block=block, cert=issued.cert, key=issued.key))
    command = [program("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(config)]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert checked.returncode == 0, checked.stderr
    return Proxy(folder, port, command, folder / "ca.pem")


def caddy(folder, port, block):
    config = folder / "Caddyfile"
    assert f"{SITE} {{" in block
    config.write_text(CADDY.format(block=block.replace(SITE, f"https://{SITE}:{port}")))
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(config)]
    return Proxy(folder, port, command, folder / "caddy/pki/authorities/local/root.crt")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with the settings of the page, but for the password."""
    folder = tmp_path_factory.mktemp("server")
    (config,) = (block for block in blocks(PAGE) if "ADMIN_TRUSTED_PROXIES" in block.code)
    (folder / "server.conf").write_text(config.code)
    settings = {entry.key.removeprefix("PINLATER_"): entry.value for entry in from_file(folder / "server.conf")}
    del settings["ADMIN_PASSWORD_HASH"]
    server = ServerProcess(folder, DASHBOARD="true", **settings)
    yield server
    assert server.stop() == 0


@pytest.fixture(params=PROXIES)
def proxy(request, tmp_path, server):
    """The program of each block, in front of the server."""
    start = {"nginx": nginx, "caddy": caddy}[request.param]
    port = free_port()
    block = block_of(request.param).code.replace("127.0.0.1:9999", f"127.0.0.1:{server.admin_port}")
    proxy = start(tmp_path, port, block)
    try:
        proxy.await_answer()
        yield proxy
    finally:
        proxy.stop()


def log_in(proxy):
    answer = proxy.post("/pinlater/login", password=PASSWORD)
    assert answer.status == 303, answer.text
    assert answer.headers["Location"] == "/pinlater/"
    return next(iter(SimpleCookie(answer.headers["Set-Cookie"]).values()))


def token_in(page):
    return re.search(r'name="csrf" value="([^"]+)"', page)[1]


def test_people_use_the_dashboard_through_it(proxy, server):
    queue = f"behind_{proxy.name}"
    with server.client() as client:
        client.createQueue(name=queue)
    answer = proxy.request("GET", f"/pinlater/queues/{queue}")
    assert (answer.status, answer.headers["Location"]) == (303, f"/pinlater/login?next=%2Fqueues%2F{queue}")
    session = log_in(proxy)
    assert (session["path"], session["secure"], session["httponly"]) == ("/pinlater/", True, True)
    cookie = f"{session.key}={session.value}"

    page = proxy.request("GET", f"/pinlater/queues/{queue}", Cookie=cookie)
    assert page.status == 200
    sources = re.findall(r'(?:src|href)="(/[^"]*/static/[^"]+)"', page.text)
    assert len(sources) > 3
    for path in sources:
        assert proxy.request("GET", path).status == 200, path

    pause = {"cookie": cookie, "csrf": token_in(page.text), "action": "pause"}
    form = f"/pinlater/queues/{queue}"
    assert f'action="{form}"' in page.text
    assert proxy.post(form, **pause | {"origin": "https://elsewhere.example.com"}).status == 403
    assert proxy.post(form, **pause | {"csrf": "made up"}).status == 403
    assert proxy.post(form, **pause).status == 303
    wait_for(lambda: f"who=admin@{PERSON} action=pause subject={queue}" in server.log)


def test_without_a_session_there_is_health_and_no_more(proxy):
    assert proxy.request("GET", "/pinlater/livez").text == "ok\n"
    assert proxy.request("GET", "/pinlater/metrics", X_Forwarded_For="127.0.0.1").status == 401


def test_the_path_without_its_last_slash_leads_there(proxy):
    answer = proxy.request("GET", "/pinlater")
    assert answer.status in {301, 302, 308}
    assert urllib.parse.urlsplit(answer.headers["Location"]).path == "/pinlater/"
