"""Values are grouped by key, in their order."""

from pinlater.server.backends.grouping import grouped


def test_values_are_grouped_in_their_order():
    assert grouped([("b", 2), ("a", 3), ("b", 1)]) == {"b": [2, 1], "a": [3]}
    assert grouped([]) == {}
