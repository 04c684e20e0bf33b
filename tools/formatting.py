"""Formatting of generated modules by ``ruff``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def formatted(text: str, name: str, *, mend: Sequence[str] = ()) -> str:
    """Return the text of a module, formatted as the project's code is.

    Args:
        text: the module.
        name: name of its file, from which ruff infers the language and its rules.
        mend: rules whose findings are fixed first, such as ``I`` (order of imports) and ``F401`` (unused imports).
    """
    steps = [["format", "--quiet"]]
    if mend:
        steps.insert(0, ["check", "--select", ",".join(mend), "--fix", "--quiet"])
    for step in steps:
        ruff = [str(Path(sys.executable).with_name("ruff")), *step, "--stdin-filename", name, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text
