"""A service with something on every page, all of whose names are as long as names get."""

import json
import time

from pinlater.client import NewJob, QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport
from pinlater.model.attempts import Ack
from pinlater.model.body_metadata import periodic_key
from pinlater.model.jobs import JobInfo
from pinlater.model.keys import JobKey
from pinlater.model.state import JobState
from tests.browser.conftest import status_of

QUEUE = "a_queue_whose_name_is_as_long_as_the_names_of_queues_may_be"[:58]


def _name(start, length=80):
    return (start + "OfSomebodyWhoWritesLongNames" * 4)[:length]


CLASS, KEY, HOST, ARGUMENT = _name("SendReminder"), _name("customer-"), _name("worker-"), _name("name_")
ERROR = f"{_name('my_company.')}.{_name('ConnectionRefused')}: {_name('https://')}.example.com"


def fill(client, server):
    """Leave jobs in every state, periodic ones, and workers; return the path of each kind of page, by its route."""
    client.create_queue(QUEUE)
    now_ms = int(time.time() * 1000)
    body = json.dumps({"job": CLASS, ARGUMENT: ARGUMENT, "list": [ARGUMENT] * 3, "text": "word " * 60}).encode()
    waiting = [NewJob(body, key=JobKey(KEY, 1)) for _ in range(10)]
    client.import_jobs(
        QUEUE, [_finished(body, state, now_ms - age) for state in ("SUCCEEDED", "FAILED") for age in (1, 10**7)]
    )
    failing = client.enqueue_jobs(QUEUE, [NewJob(body, attempts=attempts) for attempts in (1, 1, 5)])
    for claimed in client.dequeue_jobs(QUEUE, 3):
        client.ack(QUEUE, failed=[Ack(claimed.descriptor, claimed.claim, status_of(ERROR, HOST), 3600)])
    [running] = client.enqueue_jobs(QUEUE, [NewJob(body, key=JobKey(KEY, 1))])
    client.dequeue_jobs(QUEUE, 1, lease=3600)
    client.enqueue_jobs(QUEUE, [*waiting, NewJob(body, run_after_ms=now_ms + 3_600_000), _periodic(now_ms)])
    for ahead_ms in (0, 900_000):
        client.report_worker(_report(f"{HOST}:{ahead_ms}", running, now_ms + ahead_ms), 3600)
    return {
        "/": "/",
        "/queues/{queue}": f"/queues/{QUEUE}",
        "/jobs": f"/jobs?queue={QUEUE}&state=failed",
        "/jobs of all": f"/jobs?queue={QUEUE}&state=pending",
        "/jobs of a key": f"/jobs?queue={QUEUE}&key={KEY}",
        "/job": f"/job?id={failing[0]}",
        "/job that runs": f"/job?id={running}",
        "/job that is retried": f"/job?id={failing[2]}",
        "/job that is not there": f"/job?id={QUEUE}:s1:p1:99999",
        "/job/edit": f"/job/edit?id={failing[0]}",
        "/enqueue": f"/enqueue?queue={QUEUE}&copy={failing[0]}",
        "/failing": "/failing",
        "/classes": "/classes",
        "/classes of one": "/classes?name=X",
        "/periodic": "/periodic",
        "/workers": "/workers",
        "/workers and one that is in trouble": f"/workers?worker={HOST}:900000",
        "/server": "/server",
        "/server and its space": "/server?space=1",
        "/find": f"/find?q={CLASS}",
    }


def _finished(body, state, ended_ms):
    status = status_of(ERROR, HOST) if state == "FAILED" else ""
    left = 0 if status else 1
    return JobInfo(f"{QUEUE}:s1:p1:1", JobState[state], 1, left, status, ended_ms - 5000, ended_ms, ended_ms, body=body)


def _periodic(now_ms):
    record = {"due_ms": now_ms - 60_000, "schedule": "cron 0 3 * * 1,2,3,4,5 Europe/Berlin", "runs": 7, "failures": 2}
    record["last"] = {"due_ms": now_ms, "started_ms": now_ms, "ended_ms": now_ms, "result": "failed"}
    body = json.dumps({"job": CLASS, "$again": record}).encode()
    unique = periodic_key(CLASS, record["schedule"])
    return NewJob(body, run_after_ms=now_ms + 60_000, status=status_of(ERROR, HOST), unique=unique)


def _report(name, running, sent_ms):
    process = WorkerProcess(
        43, _name("pool-"), [QUEUE], sent_ms - 10**7, 2**33, 4, 2**20, [RunningJob(running, sent_ms - 90_000)], 2**20
    )
    return WorkerReport(
        name,
        HOST,
        42,
        "1.2.3",
        "3.11.7",
        sent_ms - 10**8,
        processes=[process],
        unknown=[UnknownJobs(QUEUE, CLASS, 7, sent_ms)],
        loads=[QueueLoad(QUEUE, 5000, 4, 1, 60_000, 2**10, 2**10)],
        sent_ms=sent_ms,
    )
