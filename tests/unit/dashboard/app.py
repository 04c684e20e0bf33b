"""A dashboard on a real server within the test's process, and what figures it may see."""

import contextlib
import html
import re
from html.parser import HTMLParser

from starlette.testclient import TestClient

from pinlater.dashboard.app import make_app
from pinlater.dashboard.figures import DEQUEUED, ENQUEUED, SUCCEEDED, ServerFigures, ServerProcess
from pinlater.dashboard.options import DashboardOptions
from pinlater.server.admin.pages import MonitoringPages
from pinlater.server.admin.reports import ServerStatus

# Of "open sesame" and of "just looking", at a cost that lets tests be quick.
ADMIN_HASH = "scrypt$1024$8$1$MDEyMzQ1Njc4OWFiY2RlZg==$qrn7ZhlST3jO5Auifbc3xCWPabXREAX1HDl5f9rqSnA="
READER_HASH = "scrypt$1024$8$1$ZmVkY2JhOTg3NjU0MzIxMA==$vHsiRWVGqIrYQaQRG2nngiNQYfgO/gsyyIGM1RegzWA="
ADMIN, READER = "open sesame", "just looking"

LOCKED = {"admin_hash": ADMIN_HASH, "reader_hash": READER_HASH}

HERE = "http://127.0.0.1:9999"

PAGES = (
    "/",
    "/queues/pins",
    "/jobs?queue=pins",
    "/job?id=pins:s1:p1:1",
    "/failing",
    "/periodic",
    "/classes",
    "/workers",
    "/find?q=x",
)
"""Those that ask the server."""


def figures_of(**dequeued):
    counters = {
        name: {(queue,): count for queue, count in dequeued.items()} for name in (ENQUEUED, DEQUEUED, SUCCEEDED)
    }
    return ServerFigures([ServerProcess(1, None, 1, 0, 1)], counters)


@contextlib.contextmanager
def dashboard(address, base=HERE, peer="127.0.0.1", **options):
    """Yield a browser without a window; it follows no redirects."""

    async def read_figures():
        return figures_of()

    async def view(**_):
        return ServerStatus([], [])

    chosen = DashboardOptions(
        server=address, name=address, read_figures=read_figures, plain_pages=MonitoringPages(view).by_path, **options
    )
    with TestClient(make_app(chosen), base, follow_redirects=False, client=(peer, 1234)) as browser:
        yield browser


def token_in(page):
    """Return the token that a page's forms carry."""
    return re.search(r'name="csrf" value="([^"]+)"', page.text)[1]


class _Forms(HTMLParser):
    """Collects the forms of a page: where each is sent to, and its fields as a browser sends them."""

    def __init__(self):
        super().__init__()
        self.found = []
        self._name = self._text = None
        self._is_reading = False

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        if tag == "form":
            self.found.append((about["action"], {}))
        elif tag == "input" and about.get("type") != "checkbox":
            self._add(about["name"], (about.get("value") or "").replace("\n", ""))
        elif tag in {"textarea", "select"}:
            self._name, self._text, self._is_reading = about["name"], None, tag == "textarea"
        elif tag == "option":
            is_chosen = self._text is None or "selected" in about
            self._is_reading = is_chosen and "value" not in about
            if is_chosen:
                self._text = about.get("value", "")

    def handle_data(self, data):
        if self._is_reading:
            self._text = (self._text or "") + data

    def handle_endtag(self, tag):
        if tag == "textarea":
            self._add(self._name, (self._text or "").removeprefix("\n").replace("\n", "\r\n"))
        elif tag == "select":
            self._add(self._name, self._text or "")
        if tag in {"textarea", "option"}:
            self._is_reading = False

    def _add(self, name, value):
        if self.found:
            self.found[-1][1].setdefault(name, []).append(value)


def sent_by(page, path, name):
    """Return the fields that a browser sends with the form of a page to a path that has a field of this name."""
    forms = _Forms()
    forms.feed(page.text.replace("\r\n", "\n").replace("\r", "\n"))
    [fields] = [fields for action, fields in forms.found if action == path and name in fields]
    return fields


def rows(text):
    """Return the words of each row of the first table of a part of a page."""
    body = text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        html.unescape(" ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", row).split()))
        for row in re.split("<tr[^>]*>", body)[1:]
    ]


def post(browser, path, csrf=None, origin=HERE, headers=(), **fields):
    """Send a form, as a browser does from our own pages."""
    sent = {"origin": origin} if origin else {}
    return browser.post(path, data=fields | ({"csrf": csrf} if csrf else {}), headers=sent | dict(headers))


def log_in(browser, password=ADMIN):
    return post(browser, "/login", password=password)
