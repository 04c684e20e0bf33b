"""The number of shards that a queue uses, as people write and read it: ``all``, ``auto`` or a number."""

from __future__ import annotations

from pinlater.model.queues import FOLLOWS_LOAD, QueueSettings

MOST_SHARDS = 2**31 - 1
_WORDS = {"all": 0, "auto": FOLLOWS_LOAD}


def parse_shard_count(text: str) -> int:
    """Return the ``QueueChange.shards`` that a text means.

    Raises:
        ValueError: the text is neither ``all`` nor ``auto`` nor a number above 0.
    """
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    if not (word.isascii() and word.isdigit() and 0 < int(word[:11]) <= MOST_SHARDS):
        raise ValueError(f"{text[:40]!r} is not a number of shards; use 1 or more, auto, or all")
    return int(word)


def shard_count_word(settings: QueueSettings) -> str:
    """Return the setting as ``parse_shard_count`` reads it."""
    return {None: "all", FOLLOWS_LOAD: "auto"}.get(settings.shards) or str(settings.shards)


def describe_shard_count(settings: QueueSettings) -> str:
    """Return the setting, and how many shards that is if it follows the load: ``auto (3)``."""
    is_known = settings.shards == FOLLOWS_LOAD and settings.shards_by_load is not None
    return shard_count_word(settings) + (f" ({settings.shards_by_load})" if is_known else "")
