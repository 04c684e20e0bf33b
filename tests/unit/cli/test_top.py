"""``pinlater top``, as far as it does not take a real server."""

import asyncio
import gc
import json

from pinlater.cli import command
from pinlater.cli.snapshots import read_snapshots
from pinlater.errors import QueueNotFound
from pinlater.model.messages import CancelledJobs
from tests.unit.cli.answers import dequeued


def test_it_makes_do_with_what_a_server_of_the_original_knows(tool_run, server):
    answers = {
        "getQueueSettings": "unknown",
        "getOldestDueTimestamps": "unknown",
        "getQueueNames": {"email"},
        "getFailureGroups": "unknown",
        "getCancelledJobs": "unknown",
        "getJobCount": 1,
        "dequeueJobs": dequeued(b"x"),
    }
    server.answer = lambda call: answers[call.method]
    status, out, _ = tool_run("top", "--once", "--json")
    [look] = json.loads(out)
    assert status == 0
    assert look["settings"] is None
    assert look["retrying"] is None
    assert look["wait_seconds"] > 86_400
    [groups] = [call.arguments.request for call in server.calls if call.method == "getFailureGroups"]
    assert groups.limit == 0, "whether the call is known, which costs the server nothing"


def test_a_queue_that_does_not_exist_is_one_line(tool_run, server, caplog):
    answers = {"getQueueSettings": "unknown", "getOldestDueTimestamps": "unknown", "getFailureGroups": []}
    server.answer = lambda call: answers.get(call.method, QueueNotFound("there is no queue 'email'"))
    status, out, err = tool_run("top", "email", "--once")
    gc.collect()  # then Python tells of errors that nobody has seen
    assert (status, out, err.count("\n"), caplog.text) == (1, "", 1, "")
    assert "there is no queue 'email'" in err


class BusyClient:
    """Notes how many counts it is asked for at the same time."""

    def __init__(self, queues):
        self.queues = queues
        self.running = self.most = self.counted = 0

    async def count(self, *_, **__):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.counted += 1
        return 0

    async def queue_names(self):
        return self.queues

    async def queue_settings(self):
        return {}

    async def oldest_due(self, _):
        return {}

    async def failure_groups(self, _, limit):
        return []

    async def cancelled_jobs(self, _):
        return CancelledJobs([], 0)


def test_no_call_waits_for_a_connection_however_many_queues_there_are():
    client = BusyClient({f"q{number}" for number in range(100)})
    assert len(asyncio.run(read_snapshots(client, []))) == 100
    assert client.counted == 600
    assert client.most <= command._CONNECTIONS
