"""How many shards a queue uses, in words."""

import pytest

from pinlater.model.queues import FOLLOWS_LOAD, QueueSettings
from pinlater.model.shard_count import describe_shard_count, parse_shard_count, shard_count_word


@pytest.mark.parametrize(
    ("text", "shards"), [("all", 0), (" Auto ", FOLLOWS_LOAD), ("1", 1), ("012", 12), (str(2**31 - 1), 2**31 - 1)]
)
def test_what_is_read(text, shards):
    assert parse_shard_count(text) == shards


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "two", "\N{SUPERSCRIPT TWO}", str(2**31), "1" * 5000])
def test_what_is_refused(text):
    with pytest.raises(ValueError, match="is not a number of shards; use 1 or more, auto, or all"):
        parse_shard_count(text)


@pytest.mark.parametrize(
    ("settings", "word", "description"),
    [
        (QueueSettings(), "all", "all"),
        (QueueSettings(shards=3), "3", "3"),
        (QueueSettings(shards=3, shards_by_load=2), "3", "3"),
        (QueueSettings(shards=FOLLOWS_LOAD), "auto", "auto"),
        (QueueSettings(shards=FOLLOWS_LOAD, shards_by_load=2), "auto", "auto (2)"),
    ],
)
def test_what_is_shown(settings, word, description):
    assert (shard_count_word(settings), describe_shard_count(settings)) == (word, description)
