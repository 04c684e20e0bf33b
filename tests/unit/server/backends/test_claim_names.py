"""Claim descriptors: made once per dequeue, and the source read back from them."""

import pytest

from pinlater.server.backends.claim_names import ClaimNames, source_of


def test_the_form_of_the_contract():
    names = ClaimNames("web1", 9010, 1_700_000_000_000)
    assert [names.new("shop:web1"), names.new("x")] == [
        "web1:9010:1700000000000:shop:web1:1",
        "web1:9010:1700000000000:x:2",
    ]


@pytest.mark.parametrize(
    "source", ["", "x", "a:b:c", ":", "::", "1:2", "%", "späť 🐙", "x" * 10_000, "line\nbreak", "\0"]
)
@pytest.mark.parametrize("host", ["web1", "2001:db8::1", "web1.example.com", ""])
def test_the_source_is_read_back_whatever_it_is(source, host):
    assert source_of(ClaimNames(host, 9010, 1).new(source)) == source


def test_no_two_claims_are_the_same():
    names, later = ClaimNames("web1", 9010, 1), ClaimNames("web1", 9010, 2)
    assert len({maker.new("x") for maker in (names, later) for _ in range(1000)}) == 2000


@pytest.mark.parametrize("text", ["", "x", "a:b", "a:b:c", "a:b:c:d", "::::"])
def test_what_is_no_claim_has_no_source_of_anybody(text):
    assert source_of(text) in {"", "a", "a:b"}
