"""Which groups of failures a server remembers, and which it writes again."""

import asyncio
from types import SimpleNamespace

from pinlater.model.failure_groups import failure_of
from pinlater.server.backends.failure_budget import NOTED_EVERY_MS
from pinlater.server.backends.mysql import failure_groups

QUEUE = 1
REFUSED, MISSING = failure_of("Mail", "refused"), failure_of("Mail", "missing")


class FakeDatabase:
    """Has room for every group; notes which are written."""

    def __init__(self, monkeypatch):
        self.noted_failures = {}
        self.now = 0
        self.written = []

        async def note(_, failures):
            places = [(queue_id, each.group) for queue_id, some in failures.items() for each in some]
            self.written.append(places)
            return {place: place[1] for place in places}

        monkeypatch.setattr(failure_groups, "_note", note)

    def now_ms(self):
        return self.now

    async def change(self, attempt, *, is_repeatable):
        assert is_repeatable
        return await attempt(SimpleNamespace())

    def keep(self, *failures):
        return asyncio.run(failure_groups.keep(self, [(QUEUE, failure) for failure in failures]))


def test_a_group_is_written_once_a_second(monkeypatch):
    database = FakeDatabase(monkeypatch)
    for now in 0, 1, NOTED_EVERY_MS - 1, NOTED_EVERY_MS:
        database.now = now
        assert database.keep(REFUSED) == {(QUEUE, REFUSED.group): REFUSED.group}
    assert database.written == [[(QUEUE, REFUSED.group)]] * 2


def test_known_and_new_groups_when_too_many_are_remembered(monkeypatch):
    monkeypatch.setattr(failure_groups, "_MOST_REMEMBERED", 0)
    database = FakeDatabase(monkeypatch)
    database.keep(REFUSED)
    assert database.keep(REFUSED, MISSING) == {(QUEUE, each.group): each.group for each in (REFUSED, MISSING)}
    assert list(database.noted_failures) == [(QUEUE, MISSING.group)]
