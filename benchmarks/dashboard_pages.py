"""The pages of the dashboard over a full store: how long each takes, and what it makes the store do."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from statistics import fmean

from benchmarks.figures import Figure, percentile
from benchmarks.programs import Server
from benchmarks.setting import Setting
from benchmarks.viewers import Browser
from pinlater.model.state import JobState

VISITS = 25
"""Visits of each page. The pages take turns, so that what a page has cached since its last visit has expired."""
TURN_SECONDS = 0.1

Pages = dict[str, Callable[[int], str]]
"""Page -> function that returns its path for the given number of the visit."""


def pages_of(server: Server, queues: Sequence[str]) -> Pages:
    """Return the pages: of the first queue, and of a different other queue at each visit."""
    first, names = queues[0], queues[1:]
    with server.client() as client:
        failed = client.scan(first, JobState.FAILED, limit=50)
        pending = client.scan(first, JobState.PENDING, limit=1).jobs[0]
    jobs = f"/jobs?queue={first}&state="
    fixed = {
        "overview": "/",
        "sorted": "/?sort=pending",
        "queue": f"/queues/{first}",
        "pending": f"{jobs}pending",
        "scheduled": f"{jobs}scheduled",
        "succeeded": f"{jobs}succeeded",
        "failed_jobs": f"{jobs}failed",
        "further": f"{jobs}failed&from={failed.continuation}",
        "job": f"/job?id={pending.descriptor}",
        "failing": "/failing",
        "periodic": "/periodic",
        "classes": "/classes",
        "workers": "/workers",
        "server": "/server",
        "charts": f"/charts?queue={first}&range=30d",
    }
    rotating = {"other_queue": "/queues/{}", "other_jobs": "/jobs?queue={}&state=pending"}
    return {
        **{name: (lambda _, path=path: path) for name, path in fixed.items()},
        **{name: (lambda visit, path=path: path.format(names[visit % len(names)])) for name, path in rotating.items()},
    }


def visit(setting: Setting, server: Server, pages: Pages, size: str) -> list[Figure]:
    """Visit each page; leave out the first visit, when the server has just started."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    visits = setting.amount(VISITS)
    with closing(Browser(server.admin_port)) as browser:
        for number in range(visits + 1):
            for name, path in pages.items():
                of_page = _visit_once(setting, server, browser, path(number))
                if number:
                    for what, value in of_page.items():
                        found[name, what].append(value)
                time.sleep(TURN_SECONDS)
    return [
        Figure(
            f"dashboard_{name}_{column.replace(' ', '_')}", f"page {name}, {column}", size, [value], cell=(name, column)
        )
        for name in pages
        for column, value in _columns({what: values for (of, what), values in found.items() if of == name}).items()
    ]


def _columns(found: dict[str, list[float]]) -> dict[str, float]:
    """Return what the table shows for the visits of a page."""
    times = found.pop("ms")
    shown = {"median ms": percentile(times, 50), "p95 ms": percentile(times, 95)}
    shown["CPU ms"] = fmean(found.pop("CPU ms"))  # known in steps of 10 ms
    return shown | {what: percentile(counts, 50) for what, counts in found.items()}


def _visit_once(setting: Setting, server: Server, browser: Browser, path: str) -> dict[str, float]:
    """Return what one visit took, including what others did meanwhile."""
    counted, used = setting.work(), server.cpu_seconds()
    took = {"ms": browser.time_ms(path)}
    took["CPU ms"] = (server.cpu_seconds() - used) * 1000
    # Reading the counters is counted, too; reading them again shows how much that is.
    after = setting.work()
    own = setting.work()
    for name, count in after.items():
        took[name] = max(count - counted[name] - (own[name] - count), 0)
    return took
