"""The servers that benchmarks get."""

import pytest

from benchmarks import setting
from benchmarks.setting import Setting


class SharedStores:
    is_shared = True

    def settings(self, folder, **how):
        return []


class Filling:
    """Notes which server's store it is to fill, and over how many shards."""

    def __init__(self):
        self.filled = []

    def fill(self, server, folder, stores, shards):
        self.filled.append((server, shards))


@pytest.mark.parametrize(
    ("start", "shards"),
    [
        (lambda given: given.server(), 1),
        (lambda given: given.servers(2, "two", shards=8)[0], 8),
        (lambda given: given.safe_server("safe", 3), 3),
    ],
    ids=["one", "several", "safe"],
)
def test_the_store_of_each_server_is_filled_if_jobs_are_to_wait_in_it(monkeypatch, tmp_path, start, shards):
    monkeypatch.setattr(setting, "Server", lambda folder, settings, **how: folder)
    filling = Filling()
    server = start(Setting(tmp_path, 1.0, SharedStores(), 1, filling))
    assert filling.filled == [(server, shards)]
