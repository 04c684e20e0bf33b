"""Idempotency keys of calls."""

import pytest

from pinlater.errors import UnknownError
from pinlater.protocol.idempotency import new_key
from pinlater.protocol.messages import RequestContext
from pinlater.server.api import rules

KEY = b"0123456789abcdef"


def said(**options):
    return rules.idempotency_key(RequestContext("me", **options), 600.0)


def test_without_a_key_nothing_is_kept():
    assert said() is None
    assert said(isRepeat=True, keepResultMillis=5) is None


@pytest.mark.parametrize("key", [b"", KEY[1:], KEY + b"0"])
def test_a_key_of_another_length_is_refused(key):
    with pytest.raises(UnknownError, match="has 16 bytes"):
        said(idempotencyKey=key)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [(None, 600_000), (-1, 600_000), (0, 600_000), (5000, 5000), (2**31 - 1, rules.MAX_KEEP_RESULT_MS)],
)
def test_a_result_is_kept_as_long_as_the_call_asks_within_a_day(asked, kept):
    assert said(idempotencyKey=KEY, keepResultMillis=asked) == (KEY, kept, False)
    assert said(idempotencyKey=KEY, keepResultMillis=asked, isRepeat=True).is_repeat


def test_keys_of_clients_begin_with_the_time_and_are_never_the_same(monkeypatch):
    keys = [new_key() for _ in range(1000)]
    assert len(set(keys)) == 1000
    monkeypatch.setattr("pinlater.protocol.idempotency.time.time", lambda: 1.5)
    assert new_key()[:6] == (1500).to_bytes(6, "big")
