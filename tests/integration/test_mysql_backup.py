"""Dumps of the shards of a MySQL store, as the guide says, are a backup."""

import shutil
import subprocess

import pytest

from tests.integration.test_mysql_server import QUEUE, Shards, put
from tests.support.mariadb_service import shared_service
from tests.support.server import ServerProcess

DUMP = shutil.which("mariadb-dump") or shutil.which("mysqldump")
CLIENT = shutil.which("mariadb") or shutil.which("mysql")

pytestmark = pytest.mark.skipif(not (DUMP and CLIENT), reason="the client programs of the database are missing")

PENDING, SUCCEEDED = 0, 2


def run(program, *words, **how):
    service = shared_service()
    login = [f"--host={service.host}", f"--port={service.port}", f"--user={service.user}", "--protocol=tcp"]
    command = [program, "--no-defaults", *login, f"--password={service.password}", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **how).stdout


def counts(client):
    return [client.getJobCount(queueName=QUEUE, jobState=state) for state in (PENDING, SUCCEEDED)]


def end_some(client, number):
    while number:
        jobs = client.dequeueJobs(queueName=QUEUE, limit=number).get("jobs", {})
        client.ackDequeuedJobs(queueName=QUEUE, jobsSucceeded=[{"jobDescriptor": name} for name in jobs])
        number -= len(jobs)


def test_dumps_of_all_shards_bring_the_jobs_of_their_time_back(tmp_path):
    shards = Shards(tmp_path)
    shards.write(1, 2)
    databases = [f"{shards.settings['MYSQL_DATABASE_PREFIX']}{number}" for number in (1, 2)]
    server = ServerProcess(tmp_path / "server", **shards.settings)
    try:
        with server.client() as client:
            client.createQueue(name=QUEUE)
            for _ in range(40):
                put(client)
            end_some(client, 10)
            before = counts(client)
            dumps = [run(DUMP, "--single-transaction", "--databases", database) for database in databases]
            end_some(client, 10)
            lost = put(client)
        server.stop()
        for database, dump in zip(databases, dumps, strict=True):
            run(CLIENT, f"--execute=DROP DATABASE `{database}`")
            run(CLIENT, input=dump)
        server.start()
        with server.client() as client:
            assert counts(client) == before == [30, 10]
            assert not client.lookupJobs(jobDescriptors=lost)
            [new] = put(client)
            assert new != lost[0], "its descriptor is not that of a job that was lost"
            end_some(client, 31)
            assert counts(client) == [0, 41]
    finally:
        server.stop()
