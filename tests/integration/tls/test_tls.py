"""TLS from end to end: every kind of client, and the Unix socket beside it."""

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from pinlater import AsyncClient, Client, Job, TlsFiles
from pinlater.client.address import Address
from pinlater.client.connection import Connection
from pinlater.model.jobs import NewJob
from tests.integration.test_hostile_peers import framed, is_closed, names_call, read_frame
from tests.integration.tls.tls_server import in_environment, tool
from tests.support.apache import decode_answer
from tests.support.ports import free_port
from tests.support.server import ServerProcess, environment, wait_for


def test_large_bodies_go_both_ways_through_one_connection(server, files):
    bodies = [os.urandom(900_000) for _ in range(8)]
    with Client(server.address, tls=files) as client:
        client.create_queue("large")
        client.enqueue_jobs("large", [NewJob(body) for body in bodies])
        claimed = client.dequeue_jobs("large", 8)
        assert sorted(job.body for job in claimed) == sorted(bodies)
        for _ in range(50):  # small ones after the large, each in its turn
            assert "large" in client.queue_names()


def test_an_idle_connection_is_used_again(server, files):
    before = connections_opened(server)
    with Client(server.address, tls=files) as client:
        for _ in range(5):
            client.queue_names()
            time.sleep(0.05)
    assert connections_opened(server) - before == 1


def connections_opened(server):
    line = next(line for line in server.page("/metrics")[1].splitlines() if line.startswith("pinlater_connections_o"))
    return float(line.split()[1])


def test_the_asyncio_client(server, files):
    async def use():
        async with AsyncClient(server.address, tls=files) as client:
            await client.create_queue("async")
            await client.enqueue_jobs("async", [NewJob(b"x" * 300_000) for _ in range(20)])
            found = await asyncio.gather(*(client.dequeue_jobs("async", 5) for _ in range(4)))
            return sum(len(jobs) for jobs in found)

    assert asyncio.run(use()) == 20


def test_a_waiting_dequeue_gets_its_job(server, files):
    with Client(server.address, tls=files) as waiting, Client(server.address, tls=files) as client:
        client.create_queue("waiting")
        timer = asyncio.run(_enqueue_while_waiting(waiting, client))
    assert timer == 1


async def _enqueue_while_waiting(waiting, client):
    dequeue = asyncio.create_task(asyncio.to_thread(waiting.dequeue_jobs, "waiting", 1, wait=20))
    await asyncio.sleep(0.2)
    await asyncio.to_thread(client.enqueue_jobs, "waiting", [NewJob(b"x")])
    return len(await dequeue)


def test_the_tool_by_environment_and_by_options(strict_server):
    files = strict_server.tls
    assert tool(strict_server, files, "create-queue", "tooled").returncode == 0
    options = ("--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key)
    shown = tool(strict_server, TlsFiles(), "queues", *options)
    assert "tooled" in shown.stdout.split(), shown.stderr


def test_a_worker_runs_jobs_and_says_that_it_is_ready(strict_server, tmp_path):
    files = strict_server.tls
    (tmp_path / "tls_jobs.py").write_text(
        "from pinlater import Job\n\n\nclass Touch(Job, queue='touches'):\n    path: str\n\n"
        "    def run(self, context):\n        open(self.path, 'w').close()\n"
    )
    health = free_port()
    command = [sys.executable, "-m", "pinlater.worker.program", "tls_jobs.py", "--processes", "1"]
    command += ["--server", strict_server.address, "--health", str(health)]
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=in_environment(files), stdout=log, stderr=log)
    try:
        with Client(strict_server.address, tls=files) as client:
            client.create_queue("touches")

            class Touch(Job, queue="touches"):
                path: str

            handle = client.enqueue(Touch(path=str(tmp_path / "touched")))
            assert handle.wait(timeout=40).state.name == "SUCCEEDED", (tmp_path / "worker.log").read_text()
        assert (tmp_path / "touched").exists()
        wait_for(lambda: _status(health) == 200)  # the master may hear of its ready process after the job's end
    finally:
        worker.terminate()
        assert worker.wait(40) == 0, (tmp_path / "worker.log").read_text()


def test_a_worker_that_does_not_trust_its_server_says_so_and_is_not_ready(server, stranger, tmp_path):
    (tmp_path / "jobs.py").write_text(
        "from pinlater import Job\n\n\nclass Nothing(Job):\n    def run(self, context):\n        pass\n"
    )
    health = free_port()
    command = [sys.executable, "-m", "pinlater.worker.program", "jobs.py", "--processes", "1", "--health", str(health)]
    command += ["--server", server.address, "--tls-ca", stranger.ca]
    log = tmp_path / "worker.log"
    with log.open("w") as file:
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=file, stderr=file)
    try:
        assert wait_for(lambda: "its certificate is not trusted" in log.read_text(), 40)
        assert wait_for(lambda: _status(health) == 503, 40)
    finally:
        worker.terminate()
        assert worker.wait(40) == 0, log.read_text()


def _status(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_a_unix_socket_beside_the_port(tmp_path):
    path = tmp_path / "pinlater.sock"
    server = ServerProcess(tmp_path, THRIFT_UNIX_SOCKET=path)
    try:
        with Client(f"unix:{path}") as client:
            client.create_queue("local")
            assert client.queue_names() == {"local"}
        server.kill()
        server.start()  # what the dead one left there is replaced

        async def use():
            async with AsyncClient(f"unix:{path}") as client:
                return await client.queue_names()

        assert asyncio.run(use()) == {"local"}
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(str(path))
            sock.sendall(framed(b"rubbish"))
            assert is_closed(sock)
    finally:
        assert server.stop() == 0
    assert not path.exists()


def test_a_plain_call_still_works_as_ever(shared_server):
    with shared_server.socket() as sock:
        sock.sendall(names_call(3))
        assert decode_answer("getQueueNames", read_frame(sock))[0] == 3


def test_how_far_away_a_server_is(server, files):
    with Connection(Address.parse(server.address), connect_timeout=30, tls=files) as connection:
        assert 0 < connection.round_trip_seconds < 60
