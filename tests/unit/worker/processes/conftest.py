"""Teams that end with their test."""

import time

import pytest

from tests.unit.worker.processes.team_jobs import DEADLINE_SECONDS, Bench, gate, seen, task_team, thread_team


@pytest.fixture
def teams():
    """Make teams; end their threads."""
    gate.clear()
    seen.clear()
    benches = []

    def make(make_team, places=8):
        benches.append(Bench(places, make_team))
        return benches[-1]

    yield make
    gate.set()
    for bench in benches:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while bench.team.busy and time.monotonic() < deadline:
            bench.turn()
        bench.team.close()
        bench.waker.close()


@pytest.fixture
def threads(teams):
    return teams(thread_team)


@pytest.fixture
def tasks(teams):
    return teams(task_team)
