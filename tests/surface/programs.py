"""What the programs show: help texts, settings, JSON; metrics, environment variables and paths."""

import ast
import importlib
import io
import json
import os
import re
import sys
import tomllib
import types
from unittest import mock

from tests.surface.places import ROOT, dashboard_routes, ignored_settings, machine_paths, trees
from tests.surface.recorder import DESCRIPTOR, Recorder
from tests.surface.wire_bytes import fixed_moment

COLUMNS = "100"
DATA_HOME = "/data"

JSON_COMMANDS = (
    "create-queue mail",
    "queues",
    "count mail --state failed",
    "count mail",
    "top --once",
    "workers",
    "periodic mail",
    "enqueue mail text",
    "dequeue mail",
    "dequeue mail --ack",
    f"ack mail {DESCRIPTOR}",
    f"lookup {DESCRIPTOR}",
    f"lookup {DESCRIPTOR} --body",
    "scan mail --state failed",
    f"cancel {DESCRIPTOR}",
    f"run-now {DESCRIPTOR}",
    "retry-failed mail --limit 1",
    "retry-failed mail --limit 1 --dry-run",
    "delete-jobs mail --state failed --limit 1 --yes",
    "delete-jobs mail --state failed --limit 1 --dry-run",
    "pause mail",
    "resume mail",
    "limit",
    "limit mail",
    "limit mail --rate 5",
    "delete-queue mail --password-file {password}",
)


def scripts():
    """Return the programs that the package installs: name -> what runs it."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    return {name: _loaded(where) for name, where in sorted(declared.items())}


def _loaded(where):
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


def output(main, *words):
    """Run a program as if it were called with these words; return its status and what it wrote to stdout, stderr."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    environ = {"COLUMNS": COLUMNS, "LC_ALL": "C.UTF-8", "HOME": "/home/somebody", "XDG_DATA_HOME": DATA_HOME}
    environ["PATH"] = os.environ["PATH"]
    status = 0
    with (
        mock.patch.dict(os.environ, environ, clear=True),
        mock.patch.object(sys, "argv", list(words)),
        mock.patch.dict(sys.modules, {"__main__": types.ModuleType("__main__")}),  # click names the program by it
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    for stream in (out, err):
        stream.flush()
    return status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def render_help():
    """Return the help texts of all programs and commands."""
    programs = scripts()
    pages = {name: output(main, name, "--help")[1] for name, main in programs.items()}
    name = "pinlater-worker install-units"
    pages[name] = output(programs["pinlater-worker"], *name.split(), "--help")[1]
    commands = re.findall(r"^  ([a-z][a-z-]*)  ", pages["pinlater"].partition("Commands:\n")[2], re.MULTILINE)
    for command in commands:
        pages[f"pinlater {command}"] = output(programs["pinlater"], "pinlater", command, "--help")[1]
    assert len(commands) > 20
    return "\n".join(f"== {name}\n{text}" for name, text in pages.items())


def render_settings():
    """Return the settings with their defaults, those that are ignored, and the environment variables."""
    listed = output(scripts()["pinlater-server"], "pinlater-server", "--list-settings")[1]
    blocks = [f"== settings\n{listed}", "== ignored\n" + "".join(f"{key}\n" for key in ignored_settings())]
    return "\n".join([*blocks, "== environment\n" + "".join(f"{name}\n" for name in sorted(set(_environment())))])


def _environment():
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(r"(?<![A-Z_])_?PINLATER_[A-Z_]*[A-Z]|XDG_[A-Z_]+|NOTIFY_SOCKET", node.value)


def render_metrics():
    """Return names, kinds, labels and names in the original's page of all metrics, as the reference has them."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in page.splitlines() if line.startswith("| `")]
    lines = [" | ".join(cell.strip() for cell in (*row[:3], *row[4:])).replace("`", "") for row in rows]
    [endings] = re.findall(r"^Endings of runs.*$", page, re.MULTILINE)
    return "\n".join([*lines, endings]) + "\n"


def render_paths():
    """Return the paths of the admin port."""
    lines = ["== for programs", *machine_paths(), "== dashboard"]
    lines += sorted(f"{route.path} {' '.join(sorted(route.methods - {'HEAD'}))}" for route in dashboard_routes())
    return "\n".join(lines) + "\n"


def render_json(folder):
    """Return what commands print with --json, of answers in which every field is set."""
    main = scripts()["pinlater"]
    password = folder / "password"
    password.write_text("secret\n")
    blocks = []
    with Recorder() as server, fixed_moment():
        for command in JSON_COMMANDS:
            words = command.format(password=password).split()
            status, out, err = output(main, "pinlater", "--server", server.address, "--json", *words)
            said = [json.dumps(json.loads(line), indent=1) for line in out.splitlines()]
            blocks.append("\n".join([f"== pinlater {command} --json: {status}", *said, *err.splitlines()]))
    return "\n".join(blocks).replace(str(folder), "FOLDER") + "\n"
