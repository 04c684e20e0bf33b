"""Numbers with their nouns."""

import pytest

from pinlater.model.plural import plural


@pytest.mark.parametrize(("count", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (2000, "2,000 jobs")])
def test_one_is_singular(count, text):
    assert plural(count) == text


def test_of_any_noun():
    assert [plural(count, "queue") for count in (1, 3)] == ["1 queue", "3 queues"]
