"""Keys that Redis has evicted, as it may with a ``maxmemory-policy`` other than noeviction: no script breaks.

What was in such a key is lost. All the rest goes on: a queue whose deletion failed for ever would be worse.
"""

import re

from pinlater.errors import EnqueueRejected, QueueNotFound, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.messages import Message, MessageKind, MessageWait, Parent
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import Claim, JobFilter
from tests.contract.test_failure_groups import REFUSED
from tests.support.bench import FAR_MS, QUEUE, ack_of, checkpoint_of, new_job

OTHER = "others"
LOST = re.compile(r"LOST message 1 of resize is gone")


def jobs_of(names):
    return [*map(JobDescriptor.parse, names)]


class Jobs:
    """Jobs of two queues that use all kinds of keys."""

    def __init__(self, bench, shard):
        self.run, self.shard = bench.run, shard
        self.run(shard.create_queue(OTHER))
        self.parents = self.put([new_job(b"parent", attempts=5)] * 3)
        self.take()
        self.children = self.put([new_job(parent=Parent(self.parents[0], "resize", at)) for at in range(6)], OTHER)
        first, *_ = self.take(OTHER)
        self.run(shard.ack_dequeued_jobs(OTHER, [ack_of(first, result=b"r")], []))
        for parent in self.parents:
            self.run(shard.send_message(JobDescriptor.parse(parent), Message("event", "1", b"x", MessageKind.EVENT)))
        self.put([new_job(key=JobKey("tenant", 1, is_ordered=True))] * 3)
        self.put([new_job(key=JobKey("rated", 2, is_ordered=False, rate="2/s"))] * 3)
        self.put([new_job(unique_key="one"), new_job(run_after_ms=FAR_MS)])
        self.failing = self.put([new_job(attempts=3, priority=2)] * 4)
        self.held = self.take()
        failed = [ack_of(name, is_final=name == self.failing[0], failure=REFUSED) for name in self.failing[:3]]
        self.run(shard.ack_dequeued_jobs(QUEUE, [], failed))
        self.middle = self.put([new_job(parent=Parent(self.parents[1], "middle", at)) for at in range(3)], OTHER)
        self.take(OTHER)
        self.lowest = self.put([new_job(parent=Parent(name, "lowest", 0)) for name in self.middle], OTHER)
        self.run(shard.cancel_jobs(OTHER, jobs_of(self.middle), "stop"))

    def put(self, jobs, queue=QUEUE):
        return self.run(self.shard.enqueue_jobs(queue, jobs))

    def take(self, queue=QUEUE):
        claim = Claim("host:1:1:worker:1", 3_000_000)
        return [job.descriptor for job in self.run(self.shard.dequeue_jobs(queue, 100, claim)).jobs]

    def calls(self):
        """Yield calls of all kinds; each is made on the jobs as they are now."""
        shard = self.shard
        for queue, names in ((QUEUE, self.parents + self.failing), (OTHER, self.children + self.middle + self.lowest)):
            jobs = jobs_of(names)
            for state in (PENDING, IN_PROGRESS, SUCCEEDED, FAILED):
                yield shard.count_jobs, queue, JobFilter(state)
                yield shard.scan_jobs, queue, JobFilter(state), 100, None
                yield shard.delete_these_jobs, queue, jobs, state
            yield shard.failure_groups, [queue], 10
            yield shard.lookup_jobs, jobs
            yield shard.release_claims, queue, "worker"
            yield shard.dequeue_jobs, queue, 10, Claim("host:1:1:worker:2", 1)
            yield shard.ack_dequeued_jobs, queue, [ack_of(name) for name in names[:2]], []
            yield shard.ack_dequeued_jobs, queue, [], [ack_of(name, failure=REFUSED) for name in names]
            yield shard.retry_these_jobs, queue, jobs, 1, None
            yield shard.schedule_jobs, queue, jobs, None
            yield shard.cancel_jobs, queue, jobs, "stop"
            yield shard.children_to_cancel, jobs, 100
            yield shard.finish_cancellation, queue, jobs
            yield self.delete_queue, queue
        yield shard.read_messages, JobDescriptor.parse(self.parents[0]), "resize", 0, 10, 10_000
        drops = [checkpoint_of(name, body=b"x", drops=["event", "resize"]) for name in self.parents]
        yield shard.checkpoint_jobs, QUEUE, drops
        waits = [MessageWait("resize", 1)]
        sleeps = [
            checkpoint_of(name, move_to_pending=True, run_after_ms=FAR_MS, waits_for=waits) for name in self.parents
        ]
        yield shard.checkpoint_jobs, QUEUE, sleeps
        yield (
            shard.enqueue_jobs,
            QUEUE,
            [new_job(parent=Parent(self.parents[2], "resize", 0)), new_job(unique_key="one")],
        )

    async def delete_queue(self, queue):
        await self.shard.delete_queue(queue)
        for _ in range(4):
            await self.shard.collect_finished(0, 0, 100)


def test_no_script_breaks_for_lack_of_a_key(bench, service, shard):
    jobs = Jobs(bench, shard)
    refusals = []
    with service.client() as client:
        stored = {key: client.dump(key) for key in client.keys("*")}
        assert len(stored) > 40
        for gone in stored:
            for call, *arguments in jobs.calls():
                with client.pipeline(transaction=False) as pipe:
                    pipe.flushdb()
                    for key, value in stored.items():
                        if key != gone:
                            pipe.restore(key, 0, value)
                    pipe.execute()
                try:
                    bench.run(call(*arguments))
                except (QueueNotFound, EnqueueRejected):
                    assert gone.endswith((b":emails}", b":others}", b":jobs", b":bodies")), (gone, call)
                except UnknownError as error:
                    refusals.append((gone, call.__name__, str(error)))
    assert [refusal for refusal in refusals if not LOST.search(refusal[-1])] == []
    assert {name for _, name, _ in refusals} == {"read_messages"}
