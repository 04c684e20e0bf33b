"""``kill -9`` of the server under load: what was answered stays answered."""

import hashlib
import threading

from thrift.transport.TTransport import TTransportException

from tests.support.server import ServerProcess, wait_for

KILLS = 10
LANES = 6
QUEUE = "emails"


def body(text):
    return text.encode() + b":" + hashlib.sha256(text.encode()).digest() * 20


class Load:
    """Producers and workers on one server, until it dies; remembers what they were answered."""

    def __init__(self, server, life):
        self._server = server
        self._life = life
        self.enqueued = {}
        self.acked = set()
        self.faults = []
        self._threads = [threading.Thread(target=self._run, args=(lane,)) for lane in range(LANES)]
        for thread in self._threads:
            thread.start()

    def join(self):
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a call did not end with its server"

    def _run(self, lane):
        try:
            with self._server.client(f"load:{lane}") as client:
                (self._produce if lane % 2 else self._work)(client, lane)
        except (TTransportException, OSError):
            pass  # the server died, as planned
        except Exception as fault:
            self.faults.append(fault)

    def _produce(self, client, lane):
        number = 0
        while True:
            texts = [f"{self._life}.{lane}.{number}.{at}" for at in range(lane + 1)]
            answer = client.enqueueJobs(queueName=QUEUE, jobs=[{"body": body(text)} for text in texts])
            self.enqueued |= dict(zip(answer["jobDescriptors"], texts, strict=True))
            number += 1

    def _work(self, client, _):
        while True:
            jobs = client.dequeueJobs(queueName=QUEUE, limit=5, waitMillis=1000).get("jobs", {})
            done = list(jobs)[::2]  # the others stay in progress, as with a worker that is slow
            client.ackDequeuedJobs(queueName=QUEUE, jobsSucceeded=[{"jobDescriptor": name} for name in done])
            self.acked |= set(done)


def test_ten_kills_lose_nothing(tmp_path):
    server = ServerProcess(tmp_path / "server")
    try:
        with server.client() as client:
            client.createQueue(name=QUEUE)
        enqueued, acked = {}, set()
        for life in range(KILLS):
            load = Load(server, life)
            wait_for(lambda load=load: load.faults or (len(load.enqueued) > 20 and load.acked))
            threading.Event().wait(0.1 + 0.03 * life)
            server.kill()
            load.join()
            assert load.faults == []
            assert not enqueued.keys() & load.enqueued.keys(), "an id was given out twice"
            enqueued |= load.enqueued
            acked |= load.acked
            server.start()
        _check(server, enqueued, acked)
    finally:
        server.kill()


def _check(server, enqueued, acked):
    names = list(enqueued)
    with server.client() as client:
        for start in range(0, len(names), 1000):
            some = names[start : start + 1000]
            found = client.lookupJobs(jobDescriptors=some, includeBody=True)
            for name in some:
                assert name in found, f"job {enqueued[name]} was lost"
                assert found[name]["body"] == body(enqueued[name])
                if name in acked:
                    assert found[name]["jobState"] == 2, "a job with an answered ack came back"
                assert found[name]["attemptsRemaining"] == 2
