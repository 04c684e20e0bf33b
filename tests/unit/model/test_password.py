"""The kept form of the admin password."""

import hashlib
import hmac

import pytest

from pinlater.model.password import hash_password, verify_password

KEPT = "scrypt$16384$8$1$c2FsdA==$"  # plus the hash below: a small cost, for speed


@pytest.fixture(scope="module")
def kept():
    return hash_password("open sesame")


def test_the_right_password_matches(kept):
    assert verify_password("open sesame", kept)


def test_another_does_not(kept):
    assert not verify_password("open sesame ", kept)


def test_the_form_names_its_cost(kept):
    scheme, n, r, p, salt, digest = kept.split("$")
    assert (scheme, n, r, p) == ("scrypt", "131072", "8", "1")
    assert len(salt) == 24
    assert len(digest) == 44


def test_two_hashes_of_one_password_differ(kept):
    assert hash_password("open sesame") != kept


def test_a_hash_of_another_program_is_verified():
    import base64
    import hashlib

    digest = base64.b64encode(hashlib.scrypt(b"pw", salt=b"salt", n=16384, r=8, p=1, dklen=32)).decode()
    assert verify_password("pw", KEPT + digest)
    assert not verify_password("pW", KEPT + digest)


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "pw",
        "scrypt$16384$8$1$c2FsdA==$",
        "scrypt$16384$8$1$c2FsdA==$!!",
        "bcrypt$16384$8$1$c2FsdA==$AAAA",
        "scrypt$x$8$1$c2FsdA==$AAAA",
        "scrypt$16383$8$1$c2FsdA==$AAAA",
        "scrypt$-1$8$1$c2FsdA==$AAAA",
        "scrypt$99999999999999999999999999$8$1$c2FsdA==$AAAA",
        "scrypt$1073741824$8$1$c2FsdA==$AAAA",
        "scrypt$16384$8$1$é$AAAA",
    ],
)
def test_what_is_no_hash_matches_nothing(stored):
    assert not verify_password("pw", stored)


@pytest.mark.parametrize("guess", ["", "o", "open sesam", "open sesame!", "x" * 100_000, "\ud800", "\0"])
def test_how_wrong_a_password_is_decides_nothing(guess, monkeypatch):
    """Every guess costs one hash, and one comparison of whole digests that takes the same time wherever it fails."""
    monkeypatch.setattr("pinlater.model.password._COST", (1 << 10, 8, 1))
    kept = hash_password("open sesame")
    hashed, compared = [], []
    scrypt, compare = hashlib.scrypt, hmac.compare_digest
    monkeypatch.setattr(hashlib, "scrypt", lambda *args, **options: hashed.append(options) or scrypt(*args, **options))
    monkeypatch.setattr(hmac, "compare_digest", lambda *digests: compared.append(digests) or compare(*digests))
    assert not verify_password(guess, kept)
    assert [(options["n"], options["r"]) for options in hashed] == [(1 << 10, 8)]
    assert [(len(found), len(expected)) for found, expected in compared] == [(32, 32)]
