"""Regular expressions that are small to write and huge to compile or to search for: refused, in bounded memory."""

import resource
import subprocess
import sys

import pytest

from pinlater.errors import UnknownError
from pinlater.server.backends.body_pattern import BodyPattern, check_pattern

BOMBS = [
    "(?:(?:a{1000}){1000}){1000}",
    "(?:a{1000}){1000}",
    "(?:a+{00000000000001000}){00000000000001000}",
    "(((((((a+){1000})+){1000})+){1000})+){1000}",
    r"\w{999999}x",
    "a{1000}" * 140,
    "(?:a{0,1000})+" * 70,
    "a{2147483648}",
    "a{99999999999999999999}",
    "(?x)(?:(?:a{1000}) {1000}) {1000}",
    "(?:(?:a{1000})(?#no){1000})",
    "(?:" * 8 + "a" + "{99})" * 8 + "{99}",
    "(?i)" + r"\pL" * 300,
]

SMALL = ["(((((((a+)+)+)+)+)+)+)+" * 20, "(?:(?:a?)*)*" * 80, "(" * 340 + "a" + "+)" * 340]
"""They look huge."""

UNKNOWN = [
    r"(?R)",
    "(a(?1)?)b",
    "(?P<n>a)(?&n)*b",
    r"(a)\1",
    "(?=a)",
    "(?<!a)b",
    "(?>a+)",
    r"a\Z",
    "a++",
    "(",
    "*",
    "\ud800",
]


def test_bombs_are_refused_or_compiled_in_little_memory():
    program = f"""
import resource
from pinlater.errors import UnknownError
from pinlater.server.backends.body_pattern import check_pattern

check_pattern("a")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for bomb in {BOMBS!r}:
    try:
        check_pattern(bomb)
    except UnknownError:
        continue
    raise SystemExit("taken: " + bomb)
for pattern in {SMALL!r}:
    check_pattern(pattern)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    gigabyte = 1 << 30
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (gigabyte, gigabyte)),
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 50_000, "kilobytes"


@pytest.mark.parametrize("pattern", UNKNOWN)
def test_what_re2_does_not_know_is_refused_with_its_reason(pattern):
    with pytest.raises(UnknownError, match=r"pattern is refused: .*; patterns are those of RE2"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "body"),
    [
        ("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}.*[0-9a-f]{8}", b"0a0a0a0a-aaaa-bbbb-cccc-0123456789ab  01234567"),
        (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", b"at 2026-01-02T03:04:05"),
        (r'"id": ?\d{1,19}\b', b'{"id": 12}'),
        ("(?:[0-9]{1,3}[.]){3}[0-9]{1,3}", b"10.0.0.1"),
        (r"\(?R\)", b"R)"),
        (r"\\p", rb"\p"),
        ("(?i)SMTP 4[0-9]{2}", b"smtp 451"),
        ("(?P<a>x)(?<b>y)(?-i:z)+?", b"xyz"),
        ("(?s)a.b", b"a\nb"),
        ("ä|\\xff", "ä".encode()),
        ("(a+)+$", b"b" + b"a" * 100_000),
        ("(?i)K", b"k"),
        ("", b""),
    ],
)
def test_what_people_search_for_is_found(pattern, body):
    assert BodyPattern(pattern, 60).matches(body)
    assert not pattern or not BodyPattern(pattern, 60).matches(b"-")


def test_a_pattern_that_could_take_long_in_a_large_body_is_refused_there():
    pattern = BodyPattern("a[ab]{900}c", 60)
    assert not pattern.matches(b"a" * 1000)
    with pytest.raises(UnknownError, match=r"too large for a body of 1000000 bytes: it has 9.. instructions where 500"):
        pattern.matches(b"a" * 1_000_000)
    assert not BodyPattern('"user_id": *42\\b', 60).matches(b"a" * 10_000_000)


def test_the_time_of_what_is_done_between_searches_does_not_count(monkeypatch):
    moments = [0.0]
    monkeypatch.setattr("pinlater.server.backends.body_pattern.time.monotonic", lambda: moments[0])
    pattern = BodyPattern("a", 1.0)
    with pattern.paused():
        moments[0] += 5.0
    assert pattern.matches(b"a")
    moments[0] += 1.0
    with pytest.raises(UnknownError, match="took longer than 1 s"):
        pattern.matches(b"a")
