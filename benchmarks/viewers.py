"""Viewers of the dashboard: each has a page open, which refreshes itself as it does in a browser.

It is a separate program, so that it does not delay what is measured meanwhile: ``KIND PORT COUNT PATH...``. KIND is
``apart`` for viewers whose browsers run on other machines, and ``sharing`` for those whose browsers run on this one.
It regularly prints how many pages it has read.
"""

from __future__ import annotations

import http.client
import os
import queue
import re
import sys
import threading
import time

ANSWER_SECONDS = 30.0
TURN_SECONDS = 3.0
"""A page that does not refresh itself is read again after this time, as if the viewer turned pages."""

TOLD_SECONDS = 0.5
_read: list[str] = []
"""Paths of the pages read so far."""

_REFRESHED = re.compile(rb'hx-trigger="every (\d+)s"')


class PageFailed(Exception):
    """The answer was not a page."""


class Browser:
    """Reads pages over one connection.

    Args:
        port: port of the dashboard.
    """

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)

    def read(self, path: str, *, is_refresh: bool = False) -> bytes:
        """Return a page, or the part that replaces it when it refreshes itself.

        Raises:
            PageFailed: the answer is not a page.
        """
        try:
            self._connection.request("GET", path, headers={"HX-Request": "true"} if is_refresh else {})
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise PageFailed(f"{path}: {error!r}") from error
        if answer.status != http.HTTPStatus.OK:
            raise PageFailed(f"{path} answered {answer.status}: {body[:200]!r}")
        return body

    def time_ms(self, path: str) -> float:
        """Return how many milliseconds a page takes."""
        started = time.perf_counter()
        self.read(path)
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def main() -> None:
    """View the pages until terminated; if a page fails, exit with status 1 and a message."""
    kind, port, count, *paths = sys.argv[1:]
    if kind == "apart":
        _stand_back()
    else:
        os.nice(19)
    failed: queue.Queue[str] = queue.Queue()
    for number in range(int(count)):
        threading.Thread(target=_look, args=(int(port), paths[number % len(paths)], failed), daemon=True).start()
    while True:
        try:
            sys.exit(failed.get(timeout=TOLD_SECONDS))
        except queue.Empty:
            sys.stdout.write(f"{len(_read)}\n")
            sys.stdout.flush()


def _stand_back() -> None:
    """Use only processor time that nobody else wants.

    What is measured may run with real-time priority, which also takes precedence over the others; then the usual
    priority is low enough.
    """
    is_usual = os.sched_getscheduler(0) == os.SCHED_OTHER
    os.sched_setscheduler(0, os.SCHED_IDLE if is_usual else os.SCHED_OTHER, os.sched_param(0))


def _look(port: int, path: str, failed: queue.Queue[str]) -> None:
    browser = Browser(port)
    try:
        found = _REFRESHED.search(browser.read(path))
        while True:
            _read.append(path)
            time.sleep(float(found[1]) if found else TURN_SECONDS)
            browser.read(path, is_refresh=found is not None)
    except PageFailed as error:
        failed.put(str(error))
