"""TERM while a program is still imported: process 1 of a container would lose it without a handler."""

import signal
import subprocess
import sys
import tomllib

import pytest

from tests.support.server import ROOT, environment, wait_for

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("name", ["pinlater-server", "pinlater-worker"])
def test_term_ends_a_program_that_imports_click(tmp_path, name):
    begun = tmp_path / "begun"
    slow = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(60)"
    (tmp_path / "click.py").write_text(slow)
    module, function = SCRIPTS[name].split(":")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from {module} import {function}; {function}()"
    with subprocess.Popen([sys.executable, "-c", code], env=environment()) as process:
        wait_for(begun.exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, "by a handler"
