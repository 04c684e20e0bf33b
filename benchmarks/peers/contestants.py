"""The queues compared, their settings, and what each guarantees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.peers.services import Service, beanstalkd, pinlater, postgres, redis_server

SYNCED, EACH_SECOND, IN_MEMORY = "power cut", "crash; 1 s of a power cut lost", "nothing"
"""What an answered enqueue survives; a crash is one of the server's process."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A queue in one setting.

    Attributes:
        title: name for people.
        survives: what an answered enqueue survives.
        when_killed: what happens to a job whose worker process is killed.
        serve: starts its server in a folder.
        driver: module in ``drivers`` with its job and its producer.
        worker: arguments that make an interpreter its worker; ``{url}`` is the server's URL.
        workers: number of workers to start: each contestant has two processes, unless its default is one.
        environ: more environment variables of producer and worker.
        is_ours: whether it runs with the project's interpreter, not with that of the others.
        share: share of the jobs; below 1 for slow workers.
        keeps_outstanding: whether its driver can keep many calls in flight in one process.
    """

    title: str
    survives: str
    when_killed: str
    serve: Callable[[Path], AbstractContextManager[Service]]
    driver: str
    worker: tuple[str, ...]
    workers: int = 1
    environ: Mapping[str, str] = field(default_factory=dict)
    is_ours: bool = False
    share: float = 1.0
    keeps_outstanding: bool = False

    def command(self, python: Path, url: str) -> list[str]:
        """Return the command of its worker."""
        own = sys.executable if self.is_ours else str(python)
        return [own, *(argument.format(url=url) for argument in self.worker)]


_OURS = ("-c", "from pinlater.worker.program import main; main()", "pinlater_driver", "--server", "{url}")
_AGAIN, _LOST = "runs again at once", "lost"


def _pinlater(store: str, title: str, survives: str) -> Contestant:
    serve, worker = partial(pinlater, store=store), (*_OURS, "--processes", "2")
    return Contestant(
        f"PinLater, {title}",
        survives,
        _AGAIN,
        serve,
        "pinlater_driver",
        worker,
        is_ours=True,
        keeps_outstanding=True,
    )


def _celery(title: str, when_killed: str, *more: str, **environ: str) -> Contestant:
    worker = ("-m", "celery", "-A", "celery_driver", "worker", "--concurrency", "2", "--loglevel", "error", *more)
    return Contestant(
        f"Celery, Redis, {title}",
        EACH_SECOND,
        when_killed,
        redis_server,
        "celery_driver",
        worker,
        environ=environ,
        share=0.2,
    )


def _rq(title: str, share: float, *more: str) -> Contestant:
    worker = ("-m", "rq.cli", "worker-pool", "peers", "--num-workers", "2", "--url", "{url}", "--quiet", *more)
    when = "fails; again with Retry"
    return Contestant(f"RQ, {title}", EACH_SECOND, when, redis_server, "rq_driver", worker, share=share)


def _huey(title: str, *more: str, **environ: str) -> Contestant:
    worker = ("-m", "huey.bin.huey_consumer", "huey_driver.huey", "--quiet", *more)
    return Contestant(
        f"Huey, Redis, {title}", EACH_SECOND, _LOST, redis_server, "huey_driver", worker, environ=environ, share=0.5
    )


def _taskiq(title: str, when_killed: str, **environ: str) -> Contestant:
    worker = ("-m", "taskiq", "worker", "taskiq_driver:broker", "--workers", "2", "--log-level", "ERROR")
    return Contestant(
        f"taskiq, Redis, {title}",
        EACH_SECOND,
        when_killed,
        redis_server,
        "taskiq_driver",
        worker,
        environ=environ,
        share=0.5,
    )


def _beanstalkd(title: str, survives: str, *, is_synced: bool) -> Contestant:
    serve = partial(beanstalkd, is_synced=is_synced)
    worker = ("beanstalkd_driver.py",)
    return Contestant(
        f"beanstalkd, {title}",
        survives,
        _AGAIN,
        serve,
        "beanstalkd_driver",
        worker,
        workers=2,
        keeps_outstanding=True,
    )


def _procrastinate(title: str, *more: str, workers: int) -> Contestant:
    worker = ("-m", "procrastinate", "--app", "procrastinate_driver.app", "worker", *more)
    when = "stays, until somebody retries it"
    return Contestant(
        f"procrastinate, PostgreSQL, {title}",
        SYNCED,
        when,
        postgres,
        "procrastinate_driver",
        worker,
        workers=workers,
        share=0.1,
    )


CONTESTANTS = {
    "pinlater-sqlite": _pinlater("sqlite", "SQLite", SYNCED),
    "pinlater-redis": _pinlater("redis", "Redis", EACH_SECOND),
    "pinlater-mysql": _pinlater("mysql", "MariaDB", SYNCED),
    "beanstalkd-sync": _beanstalkd("synced (-f 0)", SYNCED, is_synced=True),
    "beanstalkd": _beanstalkd("default", IN_MEMORY, is_synced=False),
    "dramatiq": Contestant(
        "Dramatiq, Redis, default, 2 processes",
        EACH_SECOND,
        "runs again after 60 s",
        redis_server,
        "dramatiq_driver",
        ("-m", "dramatiq", "dramatiq_driver", "--processes", "2"),
        share=0.5,
    ),
    "huey-fast": _huey("2 processes, no results", "-w", "2", "-k", "process"),
    "huey": _huey("default", PEERS_RESULTS="1"),
    "rq-fast": _rq("SimpleWorker", 0.1, "--worker-class", "rq.SimpleWorker"),
    "rq": _rq("default (a fork a job)", 0.01),
    "celery-reliable": _celery(
        "late acks",
        "runs again; after 1 h if all die",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
        PEERS_RELIABLE="1",
    ),
    "celery": _celery("default", _LOST),
    "taskiq-stream": _taskiq("streams", "runs again after 10 min", PEERS_STREAM="1"),
    "taskiq": _taskiq("lists (default)", _LOST),
    "procrastinate-fast": _procrastinate("16 at once, 2 processes", "--concurrency", "16", workers=2),
    "procrastinate": _procrastinate("default", workers=1),
}
"""Name -> contestant; for each queue its default, and the fastest setting that loses no job, if it has one."""
