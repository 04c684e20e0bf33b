"""People whose browser reaches the dashboard under a path of a proxy: links, log-in, refreshing, charts."""

import pytest

from tests.support.proxy import proxy
from tests.support.server import PASSWORD, ServerProcess, wait_for


@pytest.fixture(scope="module")
def server(chromium, tmp_path_factory):
    with ServerProcess(
        tmp_path_factory.mktemp("server"),
        DASHBOARD="true",
        DASHBOARD_BASE_PATH="/pinlater",
        ADMIN_TRUSTED_PROXIES="127.0.0.1",
    ) as server:
        yield server


def test_everything_is_under_the_base_path(page, server, client):
    client.create_queue("pins")
    failed = []
    page.on("response", lambda answer: failed.append((answer.status, answer.url)) if answer.status >= 400 else None)
    with proxy(server.admin_port, scheme="http") as port:
        page.goto(f"http://127.0.0.1:{port}/pinlater/queues/pins")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="pins").wait_for()
        assert page.url.endswith("/pinlater/queues/pins")
        with page.expect_response(lambda answer: "/pinlater/queues/pins" in answer.url, timeout=30_000):
            pass  # it refreshes itself
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("The queue is paused").wait_for()
        page.locator(".chart.empty").first.wait_for(state="detached", timeout=30_000)
        for name in ("Failing", "Periodic", "Classes", "Workers", "Server", "Queues"):
            page.get_by_role("link", name=name, exact=True).first.click()
            page.get_by_role("link", name=name, exact=True).and_(page.locator("[aria-current]")).wait_for()
        [cookie] = page.context.cookies()
        assert (cookie["path"], cookie["httpOnly"]) == ("/pinlater/", True)
        page.goto(f"http://127.0.0.1:{port}/pinlater/server")
        page.context.clear_cookies()
        page.get_by_label("Password").wait_for(
            timeout=30_000
        )  # the session has ended: it leads to the log-in by itself
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Server and store").wait_for()
        assert page.url.endswith("/pinlater/server")
    assert [url for status, url in failed if status != 401] == []
    page.complaints[:] = [text for text in page.complaints if "401" not in text]  # the session that had ended
    wait_for(lambda: "who=admin@203.0.113.7 action=pause subject=pins" in server.log)
