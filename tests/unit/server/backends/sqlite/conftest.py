"""A store on files of its own, which remembers its transactions."""

import pytest

from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.store_options import StoreOptions
from tests.support.bench import QUEUE, Bench


class Home:
    """Makes stores in a folder.

    Attributes:
        commits: the ``CommitStats`` of their transactions; a test may clear it.
        woken: what they say of sleeping jobs that messages have made due.
    """

    def __init__(self, folder):
        self.folder = folder
        self.commits = []
        self.woken = []
        self._notifications = JobNotifications()
        self._notifications.on_claimable = lambda *told: self.woken.append(told)

    def open(self, clock):
        return SqliteStore(
            self.folder,
            StoreOptions(3, now_ms=clock, on_commit=self.commits.append, notifications=self._notifications),
            synchronous="OFF",
        )


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


@pytest.fixture
def store(home):
    """A store with a queue; what made the queue is not among the commits."""
    bench = Bench(home)
    bench.create_queue(QUEUE)
    home.commits.clear()
    yield bench
    bench.end()
