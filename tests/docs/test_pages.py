"""Every code block of the README and of docs/ does what the page says: a page is run from top to bottom.

Python is executed, console blocks are run in a folder and on ports of their own, configuration is read by the program
that it is for. A block that cannot be run says why, in a comment above it. What a page takes for granted stands
in ``worlds/``, in a module of the page's name.
"""

import functools
import http.server
import importlib
import os
import re
import threading
import time

import pytest

from pinlater.service_errors import SERVICE_ERRORS
from pinlater.testing import LocalServer
from tests.docs import commands, configs
from tests.docs.loaded_tool import LoadedTool
from tests.docs.pages import PAGES, PROXIES, ROOT, blocks, prose
from tests.docs.sandbox import SECONDS, Sandbox
from tests.docs.snippets import Snippets
from tests.support import spans

STATES = {"IN_PROGRESS"}
ERRORS = {error.code_name for error in SERVICE_ERRORS.values()}
VARIABLES = {
    "INSTALLED_APPS",
    "PINLATER_ADMIN",
    "PINLATER_OUTBOX_DATABASE",
    "PINLATER_OUTBOX_TABLE",
    "PINLATER_SERVERS",
    "PINLATER_TLS_CA",
    "PINLATER_TLS_CERT",
    "PINLATER_TLS_KEY",
    "PINLATER_WEBHOOK",
    "PINLATER_WORKER_ARGS",
    "PINLATER_WORKER_HEALTH",
    "PINLATER_WORKER_MODULES",
}
"""Of clients, workers and projects of Django; the server's are settings."""
LOOKS = re.compile(r"pinlater (count|lookup|queues|scan|workers)\b")
DRAWINGS = {"", "text"}
CONFIGS = {"conf", "ini", "json"}
RUNNABLE = [page for page in PAGES if any(block.language not in DRAWINGS for block in blocks(page))]


@pytest.fixture(scope="session")
def proxy():
    """The World Wide Web, as far as the pages need it: every page of every site is the same."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<h1>Example Domain</h1>\n")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


@pytest.fixture(scope="session")
def tool():
    tool = LoadedTool()
    yield tool
    tool.close()


def world_of(page):
    """Return the module of what a page takes for granted; None if there is none."""
    name = "_".join(page.relative_to(ROOT).with_suffix("").parts).lower().replace("-", "_")
    try:
        return importlib.import_module(f"tests.docs.worlds.{name}")
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page, tmp_path, proxy, tool, monkeypatch):
    world = world_of(page)
    sandbox = Sandbox(tmp_path, proxy, tool, monkeypatch.setenv)
    snippets = Snippets(vars(world) if world else {}, tmp_path)
    monkeypatch.chdir(sandbox.folder)
    monkeypatch.syspath_prepend(str(sandbox.folder))
    monkeypatch.setattr("opentelemetry.trace.set_tracer_provider", spans.join)
    try:
        if hasattr(world, "prepare"):
            world.prepare(sandbox)
        for block in blocks(page):
            run(block, sandbox, snippets, tmp_path)
        if hasattr(world, "afterwards"):
            with LocalServer(tmp_path / "afterwards") as server:
                world.afterwards(snippets.names, server)
        assert snippets.never_ran() == []
    finally:
        snippets.close()
        sandbox.close()


def run(block, sandbox, snippets, folder):
    if block.language == "console":
        run_console(block, sandbox)
    elif block.language == "python" and not block.reason:
        run_python(block, sandbox, snippets)
    elif block.language in CONFIGS and not block.reason:
        check_config(block, sandbox, folder)
    else:
        is_known = block.reason or block.language in DRAWINGS or block.language in PROXIES
        assert is_known, f"{block.place}: nobody knows how to run {block.language}"


def run_console(block, sandbox):
    for command in commands.commands(block):
        commands.check(command.text)
        if not block.reason:
            assert not command.as_root, f"{block.place}: a command of root's needs a reason not to be run"
            command.expected = [sandbox.adapted(line) for line in command.expected]
            commands.assert_output(command, outcome(command, sandbox), block.place)


def outcome(command, sandbox):
    """Return what a command writes; one that only looks is repeated until there is something to be seen."""
    is_enough = functools.partial(commands.is_written, command)
    deadline = time.monotonic() + SECONDS
    while True:
        output = sandbox.run(command.text, is_enough)
        if not LOOKS.match(command.text) or is_enough(output) or time.monotonic() > deadline:
            return output


def run_python(block, sandbox, snippets):
    code = sandbox.adapted(block.code)
    if "Client(" in code:
        sandbox.ensure_server()
    if block.file:
        path = sandbox.write(block.file, block.code)
        snippets.load(path.stem)
    else:
        snippets.run(block, code)


def check_config(block, sandbox, folder):
    text = sandbox.adapted(block.code)
    path = sandbox.write(block.file or f"block-{block.line}", block.code)
    if block.language == "conf":
        configs.check_settings(path)
    elif block.language == "json":
        configs.check_json(text)
    else:
        configs.check_unit(block.code, block.file, folder / f"unit-{block.line}")


BY_HAND = [page for page in PAGES if page.parent.name != "reference"]


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page):
    """Commands, settings and metrics that stand in the text, outside of blocks."""
    text = prose(page)
    reference = {kind: (ROOT / "docs" / "reference" / f"{kind}.md").read_text() for kind in ("settings", "metrics")}
    for command in re.findall(r"`(pinlater(?:-server|-worker)? [^`]+)`", text):
        commands.check(command.replace("…", "").replace("...", ""))
    for key in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`", text):
        is_setting = (
            f"`{key.removeprefix('PINLATER_')}`" in reference["settings"] or f"`{key}`" in reference["settings"]
        )
        is_constant = "design" in page.parts  # tests/unit/project/test_docs.py looks for it in the code
        assert is_setting or is_constant or key in STATES | ERRORS | VARIABLES, key
    for metric in re.findall(r"`(pinlater_\w+_(?:total|seconds|jobs|bytes|running|waiting))\b", text):
        assert f"`{metric}`" in reference["metrics"], metric


def test_reasons_are_few():
    all_blocks = [block for page in PAGES for block in blocks(page) if block.language not in DRAWINGS]
    excused = [block.place for block in all_blocks if block.reason]
    assert len(excused) <= len(all_blocks) / 10, excused


def test_nothing_of_the_environment_of_whoever_runs_the_tests_is_needed(tmp_path, proxy, tool):
    sandbox = Sandbox(tmp_path, proxy, tool)
    assert sandbox.settings["PINLATER_SERVERS"] != os.environ.get("PINLATER_SERVERS")
    assert "9010" not in sandbox.adapted("pinlater queues --server 127.0.0.1:9010")
