"""Stand-ins for programs that would reach beyond the sandbox: they check what they are asked for, and do nothing.

``curl`` is the exception: it fetches, so that pages need no curl where they are tested.
"""

import re
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNITS = re.compile(r"pinlater-server|pinlater-worker@(\w+|\*)|pinlater\.target|pinlater\*|daemon-reload|--now")
VERBS = {"enable", "restart", "reload", "start", "stop", "status", "kill", "edit", "daemon-reload"}


def check(program, arguments):
    """Check what would be asked of a program.

    Raises:
        AssertionError: it makes no sense.
    """
    checker = globals().get(f"_{program.replace('-', '_')}")
    if checker is not None:
        checker([word for word in arguments if not word.startswith("-")])


def _make(targets):
    known = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(targets) <= set(known), f"make {' '.join(targets)}: no such target"


def _pip(words):
    assert words[0] == "install", words
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words[1:]:
        if named := re.search(r"\[(.*)\]", word):
            assert set(named[1].split(",")) <= set(extras), f"pip install {word}: no such extra"


def _systemctl(words):
    assert words[0] in VERBS, words
    for word in words[1:]:
        assert UNITS.fullmatch(word), f"systemctl: {word} is none of our units"


def _fetch(arguments):
    url = next(word for word in arguments if word.startswith("http"))
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.read().decode()


if __name__ == "__main__":
    if sys.argv[1] == "curl":
        print(_fetch(sys.argv[2:]), end="")
    else:
        check(sys.argv[1], sys.argv[2:])
