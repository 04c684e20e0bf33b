"""Celery on Redis."""

from __future__ import annotations

import os

from celery import Celery
from note import note

app = Celery("celery_driver", broker=os.environ["PEERS_URL"])

if os.environ.get("PEERS_RELIABLE") == "1":
    app.conf.task_acks_late = True
    app.conf.task_reject_on_worker_lost = True
    app.conf.task_ignore_result = True
    app.conf.worker_prefetch_multiplier = 64


@app.task
def note_start(number: int) -> None:
    note(number)


def enqueue(number: int) -> None:
    note_start.delay(number)
