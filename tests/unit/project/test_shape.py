"""The measures of the code's shape stay within their limits; ``tools/shape.py`` prints them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

import shape

MOST = {
    "files to touch for a field of an ack": 12,
    "files to touch for a call": 11,
    "files to touch for an option of enqueue": 7,
    "lines of contract kept by hand": 4670,
    "functions called on the way of one enqueue": 77,
    "wire structs made outside the protocol": 0,
    "functions that only pass their arguments on": 150,
    "modules in pinlater/": 6,
    "modules in pinlater/server/": 10,
    "cycles between packages": 0,
    "class names used more than once": 13,
    "words in ARCHITECTURE.md": 1800,
    "modules of more than 400 lines": 0,
}


@pytest.fixture(scope="module")
def measures():
    return shape.measures()


def test_help_measures_nothing(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["shape.py", "--help"])
    monkeypatch.setattr(shape, "measures", lambda: pytest.fail("measured"))
    with pytest.raises(SystemExit, match="0"):
        shape.main()


@pytest.mark.parametrize("measure", MOST)
def test_a_measure_is_within_its_limit(measures, measure):
    assert measures[measure] <= MOST[measure]
