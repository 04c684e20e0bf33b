"""Who may look at the dashboard, and who may change something through it."""

import logging
import ssl

import pytest

from pinlater.dashboard.access import local_path
from pinlater.dashboard.forms import MAX_FORM_BYTES
from pinlater.model.jobs import NewJob
from tests.unit.dashboard.app import ADMIN, HERE, LOCKED, PAGES, READER, dashboard, log_in, post, token_in

# Without a password


@pytest.mark.parametrize("host", ["127.0.0.1:9999", "localhost:9999", "LOCALHOST", "[::1]:9999", "127.1.2.3"])
def test_without_a_password_this_machine_has_access(browser, host):
    assert browser.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:9999", "127.0.0.1.evil.example", "localhost.evil.example", "xlocalhost", "", "127.0.0.1:1@evil"],
)
@pytest.mark.parametrize("path", ["/", "/job?id=pins:s1:p1:1", "/metrics", "/charts", "/static/x/style.css"])
def test_a_foreign_name_that_leads_here_is_refused(browser, host, path):
    answer = browser.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "ADMIN_PASSWORD_HASH" in answer.text


def test_health_answers_to_any_name(browser):
    assert browser.get("/livez", headers={"host": "pod-7.example"}).text == "ok\n"
    assert browser.get("/readyz", headers={"host": "pod-7.example"}).status_code == 503


def test_metrics_need_no_session_on_this_machine(locked):
    assert locked.get("/metrics").status_code == 200
    assert locked.get("/stats.txt").status_code == 200


def test_a_change_needs_the_token_of_our_own_pages(browser, client):
    for csrf in (None, "x", "späť"):
        assert post(browser, "/queues/pins", csrf, action="pause").status_code == 403
    assert not client.queue_settings()["pins"].is_paused
    assert post(browser, "/queues/pins", token_in(browser.get("/queues/pins")), action="pause").status_code == 303
    assert client.queue_settings()["pins"].is_paused


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:3000", "http://127.0.0.1.evil.example:9999", ""]
)
def test_forms_of_other_sites_change_nothing(browser, client, origin):
    csrf = token_in(browser.get("/queues/pins"))
    answer = browser.post("/queues/pins", data={"csrf": csrf, "action": "pause"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert not client.queue_settings()["pins"].is_paused


def test_a_request_without_an_origin_is_believed_only_if_no_browser_says_otherwise(browser):
    csrf = token_in(browser.get("/queues/pins"))
    assert (
        post(browser, "/queues/pins", csrf, None, {"sec-fetch-site": "cross-site"}, action="pause").status_code == 403
    )
    assert post(browser, "/queues/pins", csrf, None, action="pause").status_code == 303


def test_addresses_change_nothing(browser, client):
    csrf = token_in(browser.get("/queues/pins"))
    for path in (
        "/queues/pins",
        "/queues/pins/delete",
        "/job/retry",
        "/job/run-now",
        "/job/delete",
        "/job/cancel",
        "/job/send",
        "/plans",
        "/plans/x/start",
    ):
        browser.get(f"{path}?action=pause&csrf={csrf}&job=pins:s1:p1:1")
    assert not client.queue_settings()["pins"].is_paused
    assert browser.put("/queues/pins").status_code == 405


def test_without_a_password_no_queue_can_be_deleted(browser, client):
    page = browser.get("/queues/pins")
    assert "Delete the queue" not in page.text
    assert post(browser, "/queues/pins/delete", token_in(page), name="pins", password="").status_code == 403
    assert client.queue_names() == {"pins"}


# With passwords


def test_with_a_password_nothing_is_shown_without_it(locked):
    for path in (*PAGES, "/server", "/charts", "/nothing"):
        answer = locked.get(path)
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/login")
    assert post(locked, "/queues/pins", "x", action="pause").status_code == 403
    assert locked.get("/login").status_code == 200
    assert locked.get("/livez").status_code == 200


def test_the_right_password_opens(locked, client):
    answer = log_in(locked)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    page = locked.get("/queues/pins")
    assert page.status_code == 200
    assert post(locked, "/queues/pins", token_in(page), action="pause").status_code == 303
    assert client.queue_settings()["pins"].is_paused


def test_after_a_wrong_password_one_has_to_wait(locked):
    assert log_in(locked, "open says me").status_code == 403
    answer = log_in(locked)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert locked.get("/").status_code == 303


def test_a_log_in_by_another_site_is_refused(locked):
    answer = locked.post("/login", data={"password": ADMIN}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_reader_password_gives_read_only_access(locked, client):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    assert log_in(locked, READER).status_code == 303
    page = locked.get("/queues/pins")
    assert "Pause" not in page.text
    csrf = token_in(page)
    for path, fields in {
        "/queues/pins": {"action": "pause"},
        "/queues/pins/delete": {"name": "pins", "password": ADMIN},
        "/job/delete": {"job": "pins:s1:p1:1", "state": "PENDING"},
        "/job/retry": {"job": "pins:s1:p1:1"},
        "/job/run-now": {"job": "pins:s1:p1:1"},
        "/job/cancel": {"job": "pins:s1:p1:1"},
        "/job/send": {"job": "pins:s1:p1:1", "event": "approval"},
        "/job/body": {"job": "pins:s1:p1:1"},
        "/plans": {"job": "pins:s1:p1:1", "action": "delete", "state": "PENDING"},
    }.items():
        assert post(locked, path, csrf, **fields).status_code == 403, path
    assert client.queue_names() == {"pins"}
    assert not client.queue_settings()["pins"].is_paused


def test_logging_out_ends_the_session(locked):
    log_in(locked)
    cookies = dict(locked.cookies)
    assert post(locked, "/logout", token_in(locked.get("/"))).status_code == 303
    locked.cookies.update(cookies)
    assert locked.get("/").status_code == 303


def test_a_token_of_another_session_is_none(locked, local_server):
    log_in(locked)
    other = token_in(locked.get("/queues/pins"))
    post(locked, "/logout", other)
    log_in(locked)
    assert post(locked, "/queues/pins", other, action="pause").status_code == 403


PERSON = {"accept": "text/html,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("referer", "link"),
    [
        (f"{HERE}/jobs?queue=pins&state=failed", 'href="/jobs?queue=pins&amp;state=failed">Back'),
        ("https://elsewhere.example.com/failing", 'href="/failing">Back'),
        (f"{HERE}//elsewhere.example.com/", 'href="/">Go to the queues'),
        ("", 'href="/">Go to the queues'),
    ],
)
def test_a_form_that_is_too_old_gets_a_page_that_leads_back(browser, client, referer, link):
    answer = post(browser, "/queues/pins", "old", action="pause", headers=PERSON | {"referer": referer})
    assert answer.status_code == 403
    assert "go back and try again" in answer.text
    assert link in answer.text
    assert not client.queue_settings()["pins"].is_paused


def test_an_expired_session_gets_a_page_without_data(locked):
    answer = post(locked, "/queues/pins", "old", action="pause", headers=PERSON | {"referer": f"{HERE}/queues/pins"})
    assert answer.status_code == 403
    assert "nothing was changed" in answer.text
    assert 'href="/queues/pins">Back' in answer.text
    assert "service on" not in answer.text


@pytest.mark.parametrize("headers", [{"origin": "https://elsewhere.example.com"}, {"host": "elsewhere.example.com"}])
def test_strangers_get_no_page(browser, headers):
    answer = post(browser, "/queues/pins", "old", action="pause", headers=PERSON | headers)
    assert answer.status_code in {403, 421}
    assert "<" not in answer.text


def test_a_queue_is_deleted_by_its_name_and_the_password_again(local_server, client):
    with dashboard(local_server.address, **LOCKED) as browser:
        log_in(browser)
        csrf = token_in(browser.get("/queues/pins"))
        assert post(browser, "/queues/pins/delete", csrf, name="pin", password=ADMIN).status_code == 400
        answer = post(browser, "/queues/pins/delete", csrf, name="pins", password=ADMIN)
    assert answer.status_code == 400  # this server has no password of its own: it is asked, and says no
    assert "ADMIN_PASSWORD_HASH" in answer.text
    assert client.queue_names() == {"pins"}


def test_beyond_this_machine_metrics_need_a_session_or_a_setting(local_server):
    with dashboard(local_server.address, is_loopback=False, **LOCKED) as browser:
        assert browser.get("/metrics").status_code == 401
        log_in(browser)
        assert browser.get("/metrics").status_code == 200
    with dashboard(local_server.address, is_loopback=False, is_metrics_open=True, **LOCKED) as browser:
        assert browser.get("/metrics").status_code == 200


def test_a_session_under_tls_travels_under_tls_only(local_server):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with dashboard(local_server.address, base="https://127.0.0.1:9999", tls=tls, **LOCKED) as browser:
        answer = post(browser, "/login", origin="https://127.0.0.1:9999", password=ADMIN)
        assert answer.headers["set-cookie"].startswith("__Host-")
        assert "Secure" in answer.headers["set-cookie"]
        assert "max-age" in answer.headers["strict-transport-security"]


def test_a_page_that_refreshes_itself_is_sent_to_the_log_in_as_a_whole(locked):
    answer = locked.get("/", headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")


@pytest.mark.parametrize(
    "text", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "x", "/\r\nx"]
)
def test_a_log_in_leads_to_no_other_host(text):
    assert local_path(text) == "/"


def test_a_log_in_leads_where_one_wanted_to_go(locked):
    target = locked.get("/jobs?queue=pins&state=failed").headers["location"]
    assert target == "/login?next=%2Fjobs%3Fqueue%3Dpins%26state%3Dfailed"
    assert 'value="/jobs?queue=pins&amp;state=failed"' in locked.get(target).text
    answer = post(locked, "/login", password=ADMIN, next="/jobs?queue=pins&state=failed")
    assert answer.headers["location"] == "/jobs?queue=pins&state=failed"


# What every answer carries, and what is too much


def test_headers_of_every_answer(browser):
    for path in ("/", "/nothing", "/livez", "/static/x/style.css"):
        headers = browser.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "same-origin"


def test_pages_have_no_script_and_no_style_in_line(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    for path in (*PAGES, "/server"):
        text = browser.get(path).text
        assert " style=" not in text, path
        assert "<style" not in text, path
        assert all("src=" in part for part in text.split("<script")[1:]), path


def test_forms_are_bounded(browser):
    kind = {"origin": HERE, "content-type": "application/x-www-form-urlencoded"}
    assert browser.post("/plans", content=b"a=" + b"x" * MAX_FORM_BYTES, headers=kind).status_code == 413
    assert browser.post("/plans", content=b"&".join([b"a=1"] * 5000), headers=kind).status_code == 400
    assert browser.post("/plans", content=b"\xff\xfe", headers=kind).status_code == 400
    assert browser.post("/plans", content=b"{}", headers=kind | {"content-type": "application/json"}).status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/x/../../app.py",
        "/static/x/%2e%2e/app.py",
        "/static/x//etc/passwd",
        "/static/x/nothing",
    ],
)
def test_paths_lead_to_our_files_only(browser, path):
    assert browser.get(path).status_code == 404


OVERSIZED = ("/?q=", "/?page=", "/jobs?queue=", "/jobs?queue=pins&state=", "/jobs?queue=pins&priority=")
OVERSIZED += ("/jobs?queue=pins&body=", "/jobs?queue=pins&from=", "/job?id=", "/failing?queue=", "/workers?queue=")
OVERSIZED += ("/charts?queue=", "/find?q=", "/queues/", "/plans/", "/queues/pins?done=")


@pytest.mark.parametrize("path", OVERSIZED)
@pytest.mark.parametrize(
    "value", ["x" * 12_000, "9" * 12_000, "%00" * 3000, "%ff%ed%a0%80" * 900], ids=["x", "9", "0", "f"]
)
def test_what_is_far_too_long_is_refused_with_a_sentence(browser, path, value):
    answer = browser.get(path + value)
    assert 400 <= answer.status_code < 500
    assert len(answer.text) < 20_000


def test_changes_are_logged(browser, client, caplog):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    csrf = token_in(browser.get("/queues/pins"))
    with caplog.at_level(logging.INFO, "pinlater.audit"):
        post(browser, "/queues/pins", csrf, action="limit", rate="2.5", running="")
        post(browser, "/queues/pins", csrf, action="limit", rate="", running="", shards="auto")
        post(browser, "/job/delete", csrf, job="pins:s1:p1:1", state="PENDING")
    assert [record.getMessage() for record in caplog.records] == [
        "who=admin@127.0.0.1 action=limit(rate=2.5,running=none) subject=pins",
        "who=admin@127.0.0.1 action=limit(rate=none,running=none,shards=auto) subject=pins",
        "who=admin@127.0.0.1 action=delete subject=pins:s1:p1:1 jobs=1",
    ]
