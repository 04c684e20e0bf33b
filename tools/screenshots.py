"""Take the pictures of the dashboard in docs/screenshots/: a shop's queues, its workers, and what goes wrong there.

``make screenshots`` runs it. It needs Chromium and takes about three minutes. ``--serve`` only runs the shop, to look
at it in a browser.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "screenshots"
sys.path[:0] = [str(ROOT), str(ROOT / "supervisor"), str(ROOT / "tools")]

from PIL import Image  # noqa: E402 - this file is a script
from playwright.sync_api import Browser  # noqa: E402
from shop_jobs import BuildReport, ChargeCard, ResizePicture, SendReceipt  # noqa: E402

from pinlater import Client  # noqa: E402
from pinlater.errors import PinLaterError  # noqa: E402
from pinlater.model.state import JobState  # noqa: E402
from pinlater.model.statistics import FLEET, KEPT_SECONDS, StatisticsKind, bucket_of  # noqa: E402
from pinlater.server.backends.statistics import (  # noqa: E402
    ENQUEUED,
    FAILED,
    RUN,
    STARTED,
    SUCCEEDED,
    WAIT,
    encode,
)
from tests.support import chromium  # noqa: E402
from tests.support.redis_service import RedisService, shard_file  # noqa: E402
from tests.support.server import ServerProcess  # noqa: E402
from tests.system.worker_program import Worker  # noqa: E402

LONG = "thumbnails_of_products_that_partners_in_the_north_sent_in"
QUEUES = ("email", "image", "payment", "report", "search_index", "newsletter", LONG)
CUSTOMERS = ("c_1042", "c_2210", "c_0077", "c_5301")
PAST = (
    # queue, class, jobs per second, share that fails, milliseconds of a run
    ("email", "SendReceipt", 16.0, 0.05, 70),
    ("image", "ResizePicture", 2.0, 0.0, 900),
    ("payment", "ChargeCard", 4.0, 0.03, 180),
)
WINDOWS = {"": (1440, 900), "-phone": (390, 844)}
THEMES = {"": "light", "-dark": "dark"}
BUSY_SECONDS = 80
"""How long the shop runs until there is something on every page."""
PATIENCE_MS = 1500
"""How long a page takes to draw its charts and to find out what is wrong."""


@contextlib.contextmanager
def shop() -> Iterator[tuple[ServerProcess, Client]]:
    """Run the shop: a server with a past, two workers, and customers who order."""
    folder = Path(tempfile.mkdtemp(prefix="shop"))
    server = ServerProcess(folder, ADMIN_PASSWORD_HASH="", DASHBOARD="true")
    ends = threading.Event()
    workers: list[Worker] = []
    shutil.copy(ROOT / "tools" / "shop_jobs.py", folder)
    try:
        server.stop()
        _remember(next(server.data.glob("*.db")))
        server.start()
        with Client(server.address) as client:
            for queue in QUEUES:
                client.create_queue(queue)
            workers += [_worker(folder, server, *queues) for queues in (("email", "payment"), ("image", "report"))]
            customers = threading.Thread(target=_order, args=(client, ends))
            customers.start()
            try:
                yield server, client
            finally:
                ends.set()
                customers.join()
    finally:
        for worker in workers:
            worker.stop()
        server.stop()
        shutil.rmtree(folder)


def _remember(path: Path) -> None:
    """Store statistics of a past month, with its days and nights."""
    now = int(time.time())
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for resolution, kept in KEPT_SECONDS.items():
            last = now // resolution * resolution
            for start in range(last - kept + resolution, last, resolution):
                for key, counts in _period(start, resolution):
                    row = (resolution, start * 1000, *key, encode(counts))
                    connection.execute(_INSERT, row)


_INSERT = "INSERT OR REPLACE INTO statistics (resolution, start, kind, queue, name, counts) VALUES (?, ?, ?, ?, ?, ?)"


def _period(start: int, resolution: int) -> Iterator[tuple[tuple[int, str, str], dict[int, int]]]:
    """Yield what happened to each queue, each class and the fleet in one period."""
    fleet: dict[int, int] = {}
    chance = random.Random(start)  # noqa: S311 - pictures, no secrets
    daylight = 0.55 - 0.45 * math.cos((start % 86_400) / 86_400 * 2 * math.pi)
    weekend = 0.6 if (start // 86_400 + 4) % 7 in {0, 6} else 1.0
    for queue, job, per_second, share, run_ms in PAST:
        jobs = int(per_second * resolution * daylight * weekend * chance.uniform(0.9, 1.1))
        failed = int(jobs * share * chance.uniform(0.5, 1.5))
        plain = {ENQUEUED: jobs, STARTED: jobs + failed, SUCCEEDED: jobs, FAILED: failed}
        waited = {WAIT + bucket_of(chance.uniform(20, 400) * daylight): 1 + jobs // 12 for _ in range(12)}
        ran = {RUN + bucket_of(run_ms * chance.lognormvariate(0, 0.4)): 1 + jobs // 12 for _ in range(12)}
        yield (int(StatisticsKind.QUEUE), queue, ""), plain | waited
        for scope in (queue, FLEET):
            yield (int(StatisticsKind.CLASS), scope, job), {SUCCEEDED: jobs, FAILED: failed} | waited | ran
        for position, count in (plain | waited).items():
            fleet[position] = fleet.get(position, 0) + count
    yield (int(StatisticsKind.QUEUE), FLEET, ""), fleet


def _worker(folder: Path, server: ServerProcess, *queues: str) -> Worker:
    served = [part for queue in queues for part in ("--queue", queue)]
    return Worker(folder, "shop_jobs", "--server", server.address, "--processes", 3, *served)


def _order(client: Client, ends: threading.Event) -> None:
    """Place orders until the end; ignore those that cannot be sent."""
    client.enqueue_many([ResizePicture(picture=f"p_{number}.jpg", sizes=[80, 240]) for number in range(4)], queue=LONG)
    client.enqueue_many([BuildReport(name="month")])
    client.enqueue_many([_receipt(1)] * 40, queue="newsletter", delay=86_400)
    client.change_queue("newsletter", paused=True)
    client.enqueue_many([_receipt(number) for number in range(300)], queue="newsletter")
    order = 1000
    while not ends.wait(0.4):
        order += 2
        with contextlib.suppress(PinLaterError):
            client.enqueue_many([_receipt(order + number) for number in range(5)])
            client.enqueue_many([ResizePicture(picture=f"p_{order}.jpg", sizes=[80, 240, 900])])
            client.enqueue_many([_charge(order + number) for number in range(2)])


def _receipt(order: int) -> SendReceipt:
    return SendReceipt(customer=CUSTOMERS[order % 4], order=order)


def _charge(order: int) -> ChargeCard:
    return ChargeCard(customer=CUSTOMERS[order % 4], order=order, cents=4990)


def pages(client: Client) -> dict[str, str]:
    """Return the path of each page, by the name of its picture."""
    [failed] = client.scan("payment", JobState.FAILED, limit=1).jobs
    [running] = client.scan("report", JobState.IN_PROGRESS, limit=1).jobs
    return {
        "queues": "/",
        "queue": "/queues/email?range=24h",
        "jobs": "/jobs?queue=payment&state=failed",
        "job": f"/job?id={failed.descriptor}",
        "running": f"/job?id={running.descriptor}",
        "failing": "/failing",
        "periodic": "/periodic",
        "classes": "/classes",
        "workers": "/workers",
        "server": "/server",
    }


def take(browser: Browser, base: str, paths: dict[str, str]) -> None:
    """Take the pictures of some pages, light and dark, on a desktop and on a phone."""
    for window, (width, height) in WINDOWS.items():
        for theme, scheme in THEMES.items():
            context = browser.new_context(
                base_url=base, viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto("/")
            page.locator("main").filter(has_not_text="Looking for what is wrong").wait_for()
            for name, path in paths.items():
                page.goto(path)
                page.wait_for_timeout(PATIENCE_MS)
                _store(page.screenshot(), FOLDER / f"{name}{window}{theme}.png")
            context.close()


def _store(picture: bytes, path: Path) -> None:
    """Store a picture with 256 colors, which makes it a third as large; small dots keep theirs."""
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )


@contextlib.contextmanager
def shards() -> Iterator[ServerProcess]:
    """Run a server whose store has three shards, one of which does not answer."""
    folder = Path(tempfile.mkdtemp(prefix="shards"))
    services = [RedisService(folder / str(number)) for number in range(3)]
    settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(shard_file(folder, services))}
    server = ServerProcess(folder / "server", ADMIN_PASSWORD_HASH="", DASHBOARD="true", **settings)
    ends = threading.Event()
    users = threading.Thread(target=_use, args=(server, ends))
    try:
        users.start()
        time.sleep(BUSY_SECONDS / 2)
        services[1].kill()
        time.sleep(BUSY_SECONDS / 4)
        yield server
    finally:
        ends.set()
        users.join()
        server.stop()
        for service in services:
            service.kill()
        shutil.rmtree(folder)


def _use(server: ServerProcess, ends: threading.Event) -> None:
    with Client(server.address, timeout=2) as client:
        client.create_queue("email")
        while not ends.wait(0.1):
            with contextlib.suppress(PinLaterError):
                client.enqueue_many([_receipt(number) for number in range(20)])


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="only run the shop, to look at it in a browser")
    parser.add_argument("--only", metavar="PAGE", help="take the pictures of one page, such as queues or shards")
    options = parser.parse_args()
    if options.only != "shards":
        _take_shop(options)
    if options.only in {None, "shards"} and not options.serve:
        with shards() as server, chromium.running() as browser:
            take(browser, f"http://127.0.0.1:{server.admin_port}", {"shards": "/server"})


def _take_shop(options: argparse.Namespace) -> None:
    with shop() as (server, client):
        base = f"http://127.0.0.1:{server.admin_port}"
        if options.serve:
            print(base, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(3600)
            return
        time.sleep(BUSY_SECONDS)
        with chromium.running() as browser:
            paths = pages(client)
            take(browser, base, {options.only: paths[options.only]} if options.only else paths)


if __name__ == "__main__":
    main()
