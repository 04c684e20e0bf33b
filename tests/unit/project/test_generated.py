"""Generated modules are what their source makes of them."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import generate_blocking  # noqa: E402
import generate_calls  # noqa: E402
import generate_messages  # noqa: E402


def test_the_asyncio_calls_are_generated_from_the_operations():
    text = generate_calls.TARGET.read_text(encoding="utf-8")
    assert text == generate_calls.generated(), "run make generate, and commit what it writes"


@pytest.mark.parametrize("source", generate_blocking.MODULES)
def test_the_blocking_client_is_generated_from_the_asyncio_one(source):
    target = generate_blocking.FOLDER / generate_blocking.MODULES[source]
    expected = generate_blocking.generated(generate_blocking.FOLDER / source)
    assert target.read_text(encoding="utf-8") == expected, "run make generate, and commit what it writes"


def test_the_structs_are_generated_from_the_thrift_file():
    text = generate_messages.TARGET.read_text(encoding="utf-8")
    assert text == generate_messages.generated(), "run make generate, and commit what it writes"


def test_the_structs_are_generated_first_since_the_other_programs_import_them():
    programs = re.findall(r"tools/(generate_\w+)\.py", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert programs == ["generate_messages", "generate_calls", "generate_blocking"]
