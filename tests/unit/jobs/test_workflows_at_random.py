"""Random workflows end as a model says, wherever they are killed.

``PINLATER_TEST_SEEDS=500`` tries that many.
"""

import os
import random
from collections import Counter

import pytest

from pinlater.testing import killed_everywhere
from tests.unit.jobs import bookings
from tests.unit.jobs.bookings import done
from tests.unit.jobs.random_flows import AsyncFlow, Child, Flow, Maker, booked

SEEDS = int(os.environ.get("PINLATER_TEST_SEEDS", "8"))


class AlwaysBad(dict):
    """Failures of whatever is bad."""

    def get(self, what, default=None):
        return int(what.startswith("bad ")) or default

    def __getitem__(self, what):
        return self.get(what, 0)


@pytest.fixture(autouse=True)
def bad_ones_fail(monkeypatch):
    monkeypatch.setattr(bookings, "failures", AlwaysBad())
    done.clear()


@pytest.mark.parametrize("kind", [Flow, AsyncFlow])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_step_runs_once_and_what_is_given_up_is_undone(kind, seed):
    plan, gives_up = Maker(random.Random(seed)).whole()
    saga = plan[-1][1] if gives_up else None
    for client in killed_everywhere(kind, Child):
        done.clear()
        handle = client.enqueue(kind(plan=plan))
        where = f"{client.killed_at} of {plan}"
        assert handle.status().state.name == ("FAILED" if gives_up else "SUCCEEDED"), where
        times = Counter(done)
        undone = [f"cancelled ticket of {saga} {which}" for which in ("last", "first")] if gives_up else []
        assert set(times) == {*booked(plan), *undone}, where
        assert [what for what in dict.fromkeys(done) if what.startswith("cancelled")] == undone, where
        more = times.total() - len(times)
        assert more <= ("before save" in str(client.killed_at)), where
