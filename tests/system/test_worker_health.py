"""The health page of a real worker, while its servers come and go."""

import contextlib
import http.client
import re
import signal

import psutil
import pytest

from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, put, ran, wait_for


def page(worker, path):
    wait_for(lambda: "health checks at http://" in worker.log, what=lambda: worker.log)
    connection = http.client.HTTPConnection(re.search(r"health checks at http://([\d.:]+)", worker.log)[1], timeout=10)
    connection.request("GET", path)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode()
    connection.close()
    return found


def await_page(worker, path, status, text):
    def is_there():
        found = page(worker, path)
        return found[0] == status and text in found[1]

    wait_for(is_there, what=lambda: (page(worker, path), worker.log))


@pytest.fixture
def worker_of(folder):
    workers = []

    def start(*arguments):
        workers.append(Worker(folder, "jobs", "--health", "0", *arguments))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


def test_a_worker_is_ready_while_it_hears_a_server(worker_of, tmp_path):
    with ServerProcess(tmp_path) as server:
        server.stop()
        worker = worker_of("--server", server.address, "--queue", "touch=1", "--queue", "fails=1")
        await_page(worker, "/readyz", 503, "no server reached yet")
        assert page(worker, "/livez") == (200, "ok\n")
        server.start()
        await_page(worker, "/readyz", 200, "ok")
        server.stop()
        await_page(worker, "/readyz", 503, "the last contact with a server failed; none reached for ")
        assert page(worker, "/livez") == (200, "ok\n")
        server.start()
        await_page(worker, "/readyz", 200, "ok")
        assert page(worker, "/nowhere")[0] == 404
        assert worker.stop() == 0


def test_busy_and_stopping_workers_answer(start, client, folder):
    put(client, "HoldInterpreter", "holds")
    worker = start("--processes", 1, "--health", "127.0.0.1:0")
    wait_for(lambda: ran(folder))
    await_page(worker, "/readyz", 200, "ok")  # the keeper may become ready after the job has begun
    worker.send(signal.SIGTERM)
    await_page(worker, "/readyz", 503, "stopping")
    assert page(worker, "/livez") == (200, "ok\n")
    (folder / "go on").touch()
    assert worker.wait() == 0


def test_a_pool_that_lacks_a_process_is_named(start, client):
    worker = start("--queue", "touch=1", "--queue", "fails=1", "--health", "0")
    await_page(worker, "/readyz", 200, "ok")

    def is_named():
        for process in worker.children("jobs of fails"):  # the first is replaced at once, later ones after a while
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return page(worker, "/readyz") == (503, "pool jobs of fails: 0 of 1 children ready\n")

    wait_for(is_named, what=lambda: (page(worker, "/readyz"), worker.log))
    await_page(worker, "/readyz", 200, "ok")
    assert worker.stop() == 0


def test_a_port_that_is_taken_ends_the_worker(start):
    first = start("--processes", 1, "--health", "0")
    await_page(first, "/livez", 200, "ok")
    taken = re.search(r"health checks at http://([\d.:]+)", first.log)[1]
    second = start("--processes", 1, "--health", taken)
    assert second.wait() == 78
    assert f"pinlater-worker: --health {taken}: cannot listen: Address already in use" in second.log
