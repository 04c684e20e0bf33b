"""Headless Chromium, for tests and for the pictures of the documentation."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_PROGRAMS = ("chromium-headless-shell", "chromium")
"""The shell has no window around its pages, which takes Chromium as long to draw as the pages."""

_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def program() -> str | None:
    """Return the path of Chromium: what ``CHROMIUM`` names, if that is set; None if there is none here."""
    return next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, _PROGRAMS)]), None)


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """Run it while the ``with`` block lasts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=list(_ARGUMENTS))
        yield browser
        browser.close()
