"""The dashboard behind a proxy."""

import logging
import re
from ipaddress import ip_network

import pytest

from pinlater.model.jobs import NewJob
from tests.unit.dashboard.app import ADMIN, LOCKED, dashboard, post, token_in

PROXY = tuple(map(ip_network, ("10.0.0.1", "127.0.0.0/8")))
SITE = "https://jobs.example.com"
FROM_OUTSIDE = {"host": "jobs.example.com", "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https"}


@pytest.fixture
def proxied(local_server, client):
    with dashboard(local_server.address, base_path="/jobs", trusted_proxies=PROXY, **LOCKED) as browser:
        browser.headers.update(FROM_OUTSIDE)
        yield browser


def test_all_that_a_browser_is_led_to_is_under_the_base_path(proxied, client, local_server):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    for page in ("/jobs", "/jobs/", "/jobs/job?id=x", "/failing"):
        answer = proxied.get(page)
        assert (answer.status_code, answer.headers["location"][:11]) == (303, "/jobs/login"), page
    assert proxied.get("/jobs/", headers={"hx-request": "true"}).headers["hx-redirect"] == "/jobs/login"
    with dashboard(local_server.address, base_path="/jobs") as browser:
        for page in (
            "",
            "queues/pins",
            "jobs?queue=pins",
            f"job?id={descriptor}",
            "failing",
            "periodic",
            "classes",
            "workers",
            "server",
            "find?q=x",
        ):
            text = browser.get(f"/jobs/{page}").text
            targets = re.findall(r' (?:href|src|action|hx-get|data-chart)="([^"]*)"', text)
            assert len(targets) > 10
            assert {target for target in targets if not target.startswith("/jobs/")} == {"#main"}, page
            for target in set(re.findall(r'(?:src|href)="([^"]+/static/[^"]+)"', text)):
                assert browser.get(target).status_code == 200
        answer = post(browser, "/jobs/queues/pins", token_in(browser.get("/jobs/queues/pins")), action="pause")
        assert answer.headers["location"] == "/jobs/queues/pins?done=paused"
        assert browser.get("/livez").text == "ok\n"
        assert browser.get("/jobsx").status_code == 404


def test_behind_tls_of_a_proxy_the_session_travels_under_tls_and_the_base_path_only(proxied, client, caplog):
    with caplog.at_level(logging.INFO, "pinlater.audit"):
        answer = post(proxied, "/jobs/login", origin=SITE, password=ADMIN, next="/queues/pins")
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/queues/pins")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Secure-pinlater")
    assert "Secure;" in f"{cookie};"
    assert "Path=/jobs/;" in f"{cookie};"
    assert caplog.records[-1].getMessage() == "who=admin@203.0.113.7 action=login subject=dashboard"
    sent = {"cookie": cookie.partition(";")[0]}
    csrf = token_in(proxied.get("/jobs/queues/pins", headers=sent))
    assert post(proxied, "/jobs/queues/pins", csrf, "https://evil.example", sent, action="pause").status_code == 403
    assert post(proxied, "/jobs/queues/pins", csrf, SITE, sent, action="pause").status_code == 303
    assert client.queue_settings()["pins"].is_paused


@pytest.mark.parametrize(
    ("peer", "said", "client_address"),
    [
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "6.6.6.6, 203.0.113.7, 10.0.0.1", "203.0.113.7"),  # the first is the client's own invention
        ("127.0.0.1", "6.6.6.6, nonsense, 10.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "[2001:db8::1]:443", "2001:db8::1"),
        ("127.0.0.1", "203.0.113.7:51234", "203.0.113.7"),
        ("127.0.0.1", "::ffff:203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("198.51.100.9", "203.0.113.7", "198.51.100.9"),
    ],
)
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(local_server, caplog, peer, said, client_address):
    options = {"trusted_proxies": PROXY, "is_loopback": False} | LOCKED
    with dashboard(local_server.address, peer=peer, **options) as browser, caplog.at_level("INFO", "pinlater.audit"):
        headers = {"host": "jobs.example.com", "x-forwarded-for": said}
        post(browser, "/login", origin=SITE, headers=headers, password=ADMIN)
    assert caplog.records[-1].getMessage().startswith(f"who=admin@{client_address} ")


def test_without_a_setting_no_proxy_is_believed(local_server, caplog):
    with dashboard(local_server.address, **LOCKED) as browser, caplog.at_level("INFO", "pinlater.audit"):
        answer = post(browser, "/login", origin=SITE, headers=FROM_OUTSIDE, password=ADMIN)
    assert "Secure" not in answer.headers["set-cookie"]
    assert caplog.records[-1].getMessage().startswith("who=admin@127.0.0.1 ")


@pytest.mark.parametrize("trusted", [(), PROXY])
def test_without_a_password_nobody_comes_in_through_a_proxy(local_server, trusted):
    with dashboard(local_server.address, trusted_proxies=trusted) as browser:
        for headers in (FROM_OUTSIDE, FROM_OUTSIDE | {"host": "localhost"}):
            answer = browser.get("/", headers=headers)
            assert answer.status_code == 421
            assert "ADMIN_PASSWORD_HASH" in answer.text
        assert browser.get("/").status_code == 200
    with dashboard(local_server.address) as browser:
        for sign in ("x-real-ip", "forwarded", "via", "x-forwarded-host"):
            assert browser.get("/", headers={sign: "127.0.0.1"}).status_code == 421, sign


def test_without_a_password_a_trusted_proxy_has_to_say_whom_it_lets_in(local_server):
    with dashboard(local_server.address, trusted_proxies=PROXY) as browser:
        for headers in (
            {"x-real-ip": "203.0.113.7"},
            {"x-forwarded-host": "jobs.example.com"},
            {"x-forwarded-for": "unknown"},
            {"x-forwarded-for": "203.0.113.7, unknown, 10.0.0.1"},
        ):
            assert browser.get("/", headers=headers).status_code == 421, headers
        assert browser.get("/", headers={"x-forwarded-for": "127.0.0.1"}).status_code == 200


def test_metrics_of_this_machine_are_not_for_those_behind_its_proxy(local_server):
    with dashboard(local_server.address, trusted_proxies=PROXY, **LOCKED) as browser:
        assert browser.get("/metrics").status_code == 200
        assert browser.get("/metrics", headers=FROM_OUTSIDE).status_code == 401
        assert browser.get("/metrics", headers={"host": "jobs.example.com"}).status_code == 401
        assert browser.get("/livez", headers=FROM_OUTSIDE).status_code == 200
