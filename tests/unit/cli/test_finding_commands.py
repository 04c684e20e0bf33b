"""The commands that findings offer can be copied: they exist, with these options."""

import shlex

import click

from pinlater.cli.program import tool
from pinlater.client.periodic import PeriodicJob
from pinlater.errors import NotConnected
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobInfo
from pinlater.model.queues import QueueSettings
from pinlater.model.state import JobState
from pinlater.model.workers import UnknownJobs
from pinlater.triage.findings import Kind
from pinlater.triage.readings import FloodSample, Flow, KeyHold, ServerReading, ShardReading, StoreCalls
from pinlater.triage.rules import RULES
from tests.unit.triage.readings import NOW_MS, THRESHOLDS, process, readings, worker

MIB = 2**20


def group(queue, error, **counts):
    found = {"given_up": 0, "retrying": 0, **counts}
    return FailureGroup(queue, 1, "Mail", error, error, NOW_MS - 1000, NOW_MS - 1000, **found)


def periodic(name, late, failures):
    due_ms = NOW_MS - late * 1000
    info = JobInfo("served:s1:p1:1", JobState.PENDING, 2, 2, run_after_ms=due_ms)
    return PeriodicJob("served", name, "every 60", due_ms, 9, failures, info)


EVERYTHING = readings(
    settings={name: QueueSettings(is_paused=name == "paused") for name in ("email", "paused", "served", "lost", "bad")},
    waits={"email": 90, "paused": 90, "served": 7000, "lost": 5},
    workers=[
        worker(process(queues=["served"], memory_bytes=900 * MIB, memory_at_start_bytes=90 * MIB, ended=99), host="a"),
        worker(process(queues=["lost"]), host="b", silent=20, unknown=[UnknownJobs("served", "New", 3, NOW_MS)]),
        worker(host="c", sent_ms=NOW_MS + 60_000, unfitting=[UnknownJobs("served", "Order", 3, NOW_MS, 1)]),
        worker(host="d", cannot_start=True, queueless=[UnknownJobs("served", "Follows", 3, NOW_MS)]),
    ],
    keys={"served": FloodSample("a", 200, 200, 5000)},
    holds={"served": KeyHold("served:s1:p1:7", "a", 1, 3)},
    classes={"served": FloodSample("Mail", 200, 200, 5000, 0.1)},
    periodic=[periodic("Late", 600, 0), periodic("Failed", 0, 2)],
    groups=[group("served", "crash #: x", given_up=1), group("email", "OSError", retrying=50)],
    recent={"bad": Flow(300.0, failed=50, given_up=50)},
    servers_away={"queue2:9010": NotConnected("queue2:9010: connection refused")},
    server=ServerReading(
        [ShardReading("1", "refused", None, 1e9, 1e6)],
        [StoreCalls("ack", 50, 2.0)],
        problem="starting",
        certificate_ends=1.0,
    ),
)


def test_the_commands_of_all_kinds_of_findings_exist():
    found = [finding for rule in RULES for finding in rule(EVERYTHING, THRESHOLDS)]
    assert {finding.kind for finding in found} == set(Kind) - {Kind.SERVER_AWAY}
    for finding in found:
        name, *words = shlex.split(finding.command) or [""]
        if name != "pinlater":
            assert name in {"", "df", "iostat", "kill", "timedatectl"}, finding.command
            continue
        command = tool.commands[words[0]]
        command.make_context(words[0], words[1:], parent=click.Context(tool)).close()
