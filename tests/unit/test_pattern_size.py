"""Regular expressions that are small to write and huge to compile: refused before they are compiled."""

import pytest
import regex

from pinlater.errors import UnknownError
from pinlater.server.backends.body_pattern import BodyPattern, check_pattern
from pinlater.server.backends.pattern_size import MAX_SIZE, size_of

BOMBS = [
    "(?:(?:a{1000}){1000}){1000}",
    "(?:a{1000}){1000}",
    r"\w{999999}x",
    "a{10000}" * 100,
    "a{2147483648}",
    "(?x)(?:(?:a{1000}) {1000}) {1000}",
    "(?x)(?:(?:a{1000}) # so that nobody sees it\n {1000}) {1000}",
    "(?ix:(?:a{1000}) # likewise\n {1000})",
    "(?:(?:a{1000})(?#no){1000})",
    "(?:[)]a{1000}){1000}",
    "(?:a{1000}[(]){1000}",
    "(?:(?:a{1000})+{1000}){1000}",
    "(?:" * 8 + "a" + "{99})" * 8 + "{99}",
]

RECURSIVE = ["(?R)", "a(?R)?b", "(a(?1)?)b", "(?P<n>a)(?&n)*b", "(?P<n>a(?P>n)?)", r"\\(?R)", "(?-1)"]


@pytest.mark.parametrize("pattern", BOMBS)
def test_a_pattern_that_would_be_huge_is_not_compiled(pattern):
    with pytest.raises(UnknownError, match="repeats too much"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", RECURSIVE)
def test_a_pattern_that_calls_itself_is_refused(pattern):
    with pytest.raises(UnknownError, match="calls itself"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}.*[0-9a-f]{8}-[0-9a-f]{4}",
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}",
        r'"id": ?\d{1,19}\b',
        "(?:[0-9]{1,3}[.]){3}[0-9]{1,3}",
        r"\(?R\)",
        "(?i)SMTP 4[0-9]{2}",
        "(?-i:x)",
        ".{0,60000}x",
    ],
)
def test_what_people_search_for_is_taken(pattern):
    check_pattern(pattern)


def test_the_size_is_not_below_what_is_compiled():
    for pattern in ("(?:ab{10}){20}", "(?:(?:a{3}){4}){5}", "(?x)(?:ab) {7}"):
        (text,) = (match.group() for match in [regex.search(pattern, "ab" * 500 + "a" * 500 + "abbbbbbbbbb" * 50)])
        assert len(text) <= size_of(pattern)


def test_the_largest_pattern_that_is_taken_is_compiled_soon():
    pattern = f"(?:a{{{MAX_SIZE // 20 - 20}}}){{20}}"
    assert size_of(pattern) <= MAX_SIZE
    assert BodyPattern(pattern, 1.0)
