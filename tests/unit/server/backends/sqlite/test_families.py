"""Families of children: found by the id of any of them, the newest ones."""

import pytest

from pinlater.server.backends.sqlite import families
from pinlater.server.backends.sqlite.families import Families, Family


def test_a_job_of_no_family_is_between_two():
    found = Families()
    first, second = Family(10, 13, 7, "a", -10), Family(20, 21, 8, "b", 5)
    assert (found.find(11).parent_id, found.find(-5).parent_id) == (None, None)
    for family in (first, second):
        found.add(family)
    assert [found.find(local_id) for local_id in (10, 12, 20)] == [first, first, second]
    for local_id, first_id, end_id in [(9, None, 10), (13, 13, 20), (19, 13, 20), (21, 21, None), (10**9, 21, None)]:
        around = found.find(local_id)
        assert around.parent_id is None
        assert around.first_id <= local_id < around.end_id
        assert first_id is None or around.first_id == first_id
        assert end_id is None or around.end_id == end_id


@pytest.mark.parametrize("count", [5, 9, 100])
def test_the_newest_are_remembered(monkeypatch, count):
    monkeypatch.setattr(families, "_MOST_FAMILIES", 5)
    found = Families()
    added = [Family(at, at + 1, 1, "a", 0) for at in range(count)]
    for family in added:
        found.add(family)
    known = [found.find(at) for at in range(count) if found.find(at).parent_id is not None]
    assert known == added[-len(known) :]
    assert 5 <= len(known) <= 10
    assert found.find(-1).parent_id is found.find(count).parent_id is None
