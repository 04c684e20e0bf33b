"""The store that has to keep the contract: each in turn."""

import pytest

from tests.support.bench import QUEUE, Bench
from tests.support.stores import STORES


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """However busy the machine is, no call is given up; the time limits of calls have tests of their own."""
    for limit in (
        "mysql.connection.CONNECT_SECONDS", "mysql.database.CALL_SECONDS",
        "mysql.group_commit.ATTEMPT_SECONDS", "mysql.group_commit.RETRY_SECONDS",
        "redis.connection.CONNECT_SECONDS", "redis.connection.ANSWER_SECONDS",
    ):  # fmt: skip
        monkeypatch.setattr(f"pinlater.server.backends.{limit}", 60.0)


@pytest.fixture(params=STORES)
def home_kind(request):
    return STORES[request.param].home


@pytest.fixture
def backend(home_kind, tmp_path):
    """A bench with an empty queue."""
    bench = Bench(home_kind(tmp_path / "store"))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()
