"""Every page: fit for all people and windows, light and dark, however long the names are."""

import pytest

from pinlater import Client
from pinlater.dashboard import app
from tests.browser.crowded import fill
from tests.support.axe import violations
from tests.support.server import PASSWORD, ServerProcess

WIDTHS = (360, 768, 1440)
HEIGHT = 800

NOT_PAGES = {"/static/{version}/{name:path}", "/charts", "/failed"}
SHOWN_BY_THE_WAY = {"/login", "/plans/{key}"}
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""By then the page knows its width, and what can be scrolled in it."""

_SIDEWAYS = """() => [...document.querySelectorAll(".bar nav, .scroll")]
    .filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent.trim().slice(0, 40))"""


@pytest.fixture(scope="module")
def server(chromium, tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server"), DASHBOARD="true") as server:
        yield server


@pytest.fixture(scope="module")
def paths(server):
    with Client(server.address) as client:
        return fill(client, server)


def test_all_pages_are_looked_at(paths):
    routes = {route.path for route in app._ROUTES if "GET" in route.methods} - NOT_PAGES - SHOWN_BY_THE_WAY
    assert routes <= {name.partition(" ")[0] for name in paths}


@pytest.mark.timeout(300)
def test_no_page_keeps_anybody_out_or_is_wider_than_its_window(page, paths):
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    faults = []
    page.goto("/")
    look(page, "/login", faults)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Queues").wait_for()
    for name, path in paths.items():
        page.goto(path)
        look(page, name, faults)
    page.goto("/failing")
    page.get_by_role("button", name="Retry…").first.click()
    page.get_by_role("heading", name="Retry").wait_for()
    look(page, "/plans/{key}", faults)
    page.complaints[:] = [text for text in page.complaints if "404" not in text and "401" not in text]
    assert not faults, "\n".join(faults)


def look(page, name, faults):
    """Note what is wrong with a page at all widths; in the dark, where only colours differ, at one."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.evaluate(_DRAWN)
        real = page.evaluate("document.documentElement.scrollWidth")
        faults += [f"{name} at {width}: is {real} wide"] if real > width else []
        cut = page.evaluate(_SIDEWAYS) if width == WIDTHS[0] else []
        faults += [f"{name} at {width}: has to be scrolled sideways: {one}" for one in cut]
        found = violations(page) if width != 768 else []
        faults += [f"{name} at {width}: {one['help']}: {one['nodes']}" for one in found]
    page.emulate_media(color_scheme="dark")
    found = violations(page, "color-contrast")
    faults += [f"{name} in the dark: {one['help']}: {one['nodes']}" for one in found]
    page.emulate_media(color_scheme="light")
