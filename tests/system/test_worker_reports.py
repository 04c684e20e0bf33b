"""Workers as everybody can see them: idle, at work, draining, gone."""

import os
import platform
import signal
import time

import psutil
import pytest

from pinlater import __version__
from tests.system.worker_program import put, ran, wait_for


@pytest.fixture(autouse=True)
def nobody(client):
    """Begin without workers that other tests have killed."""
    for report in client.workers():
        client.report_worker(report, 0)


def seen(client, worker):
    """Return what a worker has reported, if it has."""
    return next((report for report in client.workers() if report.pid == worker.process.pid), None)


def await_processes(client, worker, count, besides=()):
    def there():
        report = seen(client, worker)
        return report and len({process.pid for process in report.processes} - set(besides)) == count

    wait_for(there, what=lambda: f"{client.workers()}\n{worker.log}")
    return seen(client, worker)


@pytest.mark.parametrize(("several", "slots"), [((), 1), (("--threads", 3), 3)])
def test_an_idle_worker_is_seen_and_gone_at_once_when_it_ends(start, client, several, slots):
    worker = start("--queue", "touch=1", "--queue", "sleeps=2", *several)
    report = await_processes(client, worker, 3)
    assert (report.host, report.version, report.python) == (platform.node(), __version__, platform.python_version())
    assert not report.is_draining
    assert sorted(process.pool for process in report.processes) == ["jobs of sleeps", "jobs of sleeps", "jobs of touch"]
    assert {tuple(process.queues) for process in report.processes} == {("touch",), ("sleeps",)}
    for process in report.processes:
        assert psutil.Process(process.pid).ppid() == worker.process.pid
        assert process.memory_bytes > 5_000_000
        assert (process.slots, process.ended, list(process.jobs)) == (slots, 0, [])
        assert 0 <= time.time() - process.started_ms / 1000 < 60
    assert worker.stop() == 0
    assert client.workers() == []


def test_a_running_job_is_seen_with_its_start_and_counted_when_it_has_ended(start, client, folder):
    worker = start("--processes", 1)
    report = await_processes(client, worker, 1)
    put_ms = 1000 * time.time()
    descriptor = put(client, "Fills", "holds", megabytes=0, file="seen")
    wait_for(lambda: ran(folder))
    running_ms = 1000 * time.time()
    wait_for(lambda: seen(client, worker).processes[0].jobs, what=lambda: worker.log)
    [job] = seen(client, worker).processes[0].jobs
    assert job.descriptor == descriptor
    assert put_ms - 1000 < job.since_ms < running_ms + 1000  # the clocks of worker and server need not agree entirely
    assert report.id in client.lookup([descriptor])[descriptor].claim
    (folder / "seen").touch()
    wait_for(lambda: seen(client, worker).processes[0].ended == 1, what=lambda: worker.log)
    assert not seen(client, worker).processes[0].jobs
    assert worker.stop() == 0


def test_a_killed_process_is_replaced_and_a_drain_is_seen(start, client, folder):
    worker = start("--processes", 2)
    before = [process.pid for process in await_processes(client, worker, 2).processes]
    os.kill(before[0], signal.SIGKILL)
    report = await_processes(client, worker, 1, besides=before)
    assert before[1] in {process.pid for process in report.processes}
    put(client, "Fills", "holds", megabytes=0, file="seen")
    wait_for(lambda: ran(folder))
    worker.send(signal.SIGTERM)
    wait_for(lambda: seen(client, worker).is_draining, what=lambda: worker.log)
    (folder / "seen").touch()
    assert worker.wait() == 0
    assert client.workers() == []


def test_a_reload_and_a_new_keeper_leave_it_listed(start, client):
    worker = start("--processes", 1)
    first = await_processes(client, worker, 1)
    [keeper] = worker.children("keeper")
    keeper.kill()
    wait_for(lambda: [each for each in worker.children("keeper") if each.pid != keeper.pid], what=lambda: worker.log)
    worker.send(signal.SIGHUP)
    second = await_processes(client, worker, 1, besides=[first.processes[0].pid])
    wait_for(lambda: len(seen(client, worker).processes) == 1, what=lambda: worker.log)
    assert second.id == first.id
    assert worker.stop(signal.SIGINT) == 0
    assert client.workers() == []


def test_of_all_workers_only_the_killed_one_is_lost(start, server, client):
    """A server and a keeper that are replaced end connections, too; so does a deployment of workers."""
    lives, stops, dies = (start("--processes", 1) for _ in range(3))
    for worker in (lives, stops, dies):
        await_processes(client, worker, 1)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(30)
    server.start()
    await_reports(client, 2, lives, stops, dies)
    [keeper] = lives.children("keeper")
    keeper.kill()
    assert stops.stop() == 0
    dies.end()
    wait_for(lambda: [report for report in client.workers() if report.lost_ms], 60, client.workers)
    assert {report.pid for report in client.workers() if report.lost_ms} == {dies.process.pid}
    assert {report.pid for report in client.workers()} == {lives.process.pid, dies.process.pid}
    assert lives.stop() == 0


def await_reports(client, number, *workers):
    """Wait until each of the workers has reported so many times more."""
    seen_of = {worker: set() for worker in workers}

    def reported():
        for worker, sent in seen_of.items():
            sent.update(report.sent_ms for report in client.workers() if report.pid == worker.process.pid)
        return all(len(sent) > number for sent in seen_of.values())

    wait_for(reported, 60, client.workers)


def test_a_worker_outlives_its_server_and_is_seen_by_the_next(start, server, client):
    worker = start("--processes", 1)
    await_processes(client, worker, 1)
    server.kill()
    server.start()
    for report in client.workers():
        client.report_worker(report, 0)
    await_processes(client, worker, 1)
    assert worker.stop() == 0
