"""A worker whose jobs are on two Redis shards, one of which is away."""

import pytest

from pinlater import JobState
from pinlater.client import NewJob
from pinlater.model.descriptor import JobDescriptor
from tests.support.server import wait_for
from tests.system.worker_program import await_state, job_module, put, ran

LEASE_SECONDS = 40
SHORT_LEASE_SECONDS = 10


@pytest.fixture
def server(server_of_two_shards):
    return server_of_two_shards


TAKES_TOO_LONG = job_module("""
import os, time
from pinlater import Job


class TakesTooLong(Job, queue="sleeps", kill_after=5):
    def run(self, context):
        write(f"begin late {context.attempt} {os.getpid()}")
        while True:
            try:
                time.sleep(600)
            except Exception:
                pass
""")


ENDS_WHEN_TOLD = b'{"job": "EndsWhenTold"}'
WAITS = job_module("""
import os, time
from pinlater import Job


class EndsWhenTold(Job, queue="sleeps"):
    def run(self, context):
        write("begin")
        while not os.path.exists("end"):
            time.sleep(0.05)
        write("end")
""")


def test_jobs_of_a_killed_process_begin_again_though_the_shard_of_the_culprit_is_away(
    start, client, folder, two_shards
):
    (folder / "late.py").write_text(TAKES_TOO_LONG)
    place = JobDescriptor.parse(put(client, "TakesTooLong", "sleeps")).shard
    shards = {}
    while set(shards.values()) <= {place}:
        name = f"job{len(shards)}"
        shards[name] = JobDescriptor.parse(put(client, "Sleep", "sleeps", name=name, seconds=600)).shard
    worker = start("--processes", 1, "--threads", 1 + len(shards), "--lease", LEASE_SECONDS, modules=("jobs", "late"))

    def have_begun(names, times):
        begun = [tuple(line.split()[1:3]) for line in ran(folder) if line.startswith("begin")]
        return all(begun.count((name, "1")) == times for name in names)

    wait_for(lambda: have_begun(["late", *shards], 1), what=lambda: worker.log)
    away = two_shards[int(place) - 1]
    away.kill()
    elsewhere = [name for name, shard in shards.items() if shard != place]
    wait_for(lambda: have_begun(elsewhere, 2), LEASE_SECONDS / 2, lambda: worker.log)
    away.start()
    wait_for(
        lambda: any(line.startswith("begin late 2") for line in ran(folder)), 2 * LEASE_SECONDS, lambda: worker.log
    )


class Killed:
    """As after a crash."""

    def __init__(self, redis):
        self._redis = redis

    def begin(self):
        self._redis.kill()

    def end(self):
        self._redis.start()


class Refusing:
    """As with a full disk, when Redis takes no changes until there is room again."""

    def __init__(self, redis):
        self._redis = redis

    def begin(self):
        self._set(1)

    def end(self):
        self._set(0)

    def _set(self, number):
        with self._redis.client() as client:
            client.config_set("min-replicas-to-write", number)


@pytest.mark.parametrize(
    ("trouble", "more"), [(Killed, ()), (Killed, ("--threads", 1)), (Refusing, ())], ids=["killed", "team", "refusing"]
)
def test_a_job_that_ends_while_its_shard_is_away_for_longer_than_its_lease_runs_once(
    start, server, client, folder, *, two_shards, trouble, more
):
    job = client.enqueue_jobs("sleeps", [NewJob(ENDS_WHEN_TOLD, attempts=1)])[0]
    (folder / "ends.py").write_text(WAITS)
    worker = start("--processes", 1, *more, "--lease", SHORT_LEASE_SECONDS, modules=("ends",))
    wait_for(lambda: ran(folder) == ["begin"], what=lambda: worker.log)
    away = trouble(two_shards[int(JobDescriptor.parse(job).shard) - 1])
    away.begin()
    (folder / "end").touch()
    wait_for(lambda: "does not take the end of 1 job " in worker.log, 6 * SHORT_LEASE_SECONDS, lambda: worker.log)
    assert "it is told again until the store is back" in worker.log
    away.end()
    wait_for(lambda: "pinlater_ill_shards 0" in server.page("/metrics")[1])
    await_state(client, job, JobState.SUCCEEDED)
    assert ran(folder) == ["begin", "end"]
    assert worker.stop() == 0


def test_a_job_whose_ack_is_late_is_acked_while_its_process_runs_another_one(start, server, client, folder, two_shards):
    """The process sends nothing meanwhile: the keeper renews the claim, and acks the job."""
    [job] = client.enqueue_jobs("sleeps", [NewJob(ENDS_WHEN_TOLD, attempts=1)])
    (folder / "ends.py").write_text(WAITS)
    worker = start("--processes", 1, "--lease", SHORT_LEASE_SECONDS, modules=("jobs", "ends"))
    wait_for(lambda: ran(folder) == ["begin"], what=lambda: worker.log)
    away = two_shards[int(JobDescriptor.parse(job).shard) - 1]
    away.kill()
    (folder / "end").touch()
    wait_for(lambda: "does not take the end of 1 job " in worker.log, 6 * SHORT_LEASE_SECONDS, lambda: worker.log)
    other = put(client, "Until", "sleeps", name="long")
    wait_for(lambda: len(ran(folder)) == 3, what=lambda: worker.log)
    away.start()
    wait_for(lambda: "pinlater_ill_shards 0" in server.page("/metrics")[1])
    await_state(client, job, JobState.SUCCEEDED)
    assert len(ran(folder)) == 3, "the other one still runs"
    (folder / "go on").touch()
    await_state(client, other, JobState.SUCCEEDED)
    assert [line.split()[0] for line in ran(folder)] == ["begin", "end", "begin", "end"]
    assert worker.stop() == 0
