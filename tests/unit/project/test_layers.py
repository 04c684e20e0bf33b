"""The rules that hold for the code as a whole: which part may know which, and what nobody may use."""

import ast
import functools
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pinlater
from tests.support import django_project

ROOT = Path(__file__).parents[3]
SOURCES = {
    "pinlater": ROOT / "pinlater",
    "pinlater_supervisor": ROOT / "supervisor" / "pinlater_supervisor",
    "jobs_example": ROOT / "jobs_example",
}

LAYERS = [
    # (package, the packages that it may import, besides itself and those inside it that have no line of their own)
    ("pinlater.errors", "service_errors"),
    ("pinlater.service_errors", ""),
    ("pinlater.logs", ""),
    ("pinlater.durations", ""),
    ("pinlater.environment", "server.config"),
    ("pinlater.model", "errors"),
    ("pinlater.jobs", "errors model"),
    ("pinlater.tracing", "errors jobs model"),
    ("pinlater.protocol", "errors model"),
    ("pinlater.client", "errors jobs logs model protocol tracing"),
    ("pinlater.outbox", "client errors jobs model protocol"),
    ("pinlater.triage", "client errors model"),
    ("pinlater.cli", "client durations environment errors jobs logs model outbox triage"),
    ("pinlater.dashboard", "client errors model triage"),
    # The server, from what accepts connections down to what keeps jobs.
    ("pinlater.server", "* dashboard environment errors logs model protocol pinlater_supervisor"),
    (
        "pinlater.server.admin",
        "dashboard errors logs model pinlater_supervisor server.config server.metrics server.net",
    ),
    (
        "pinlater.server.net",
        (
            "errors pinlater_supervisor protocol "
            "server.api server.broker server.config server.metrics server.peer_processes"
        ),
    ),
    (
        "pinlater.server.background",
        "errors model protocol server.backends server.broker server.config server.metrics server.peer_processes",
    ),
    (
        "pinlater.server.api",
        "errors model protocol server.backends server.broker server.config server.limits server.metrics",
    ),
    ("pinlater.server.broker", "errors model server.backends server.limits"),
    ("pinlater.server.limits", "errors model server.backends server.config"),
    ("pinlater.server.backends", "errors model protocol server.config server.metrics"),
    ("pinlater.server.backends.sharded", "errors model protocol server.backends server.metrics"),
    ("pinlater.server.backends.sqlite", "errors model protocol server.backends server.metrics"),
    ("pinlater.server.backends.mysql", "errors model protocol server.backends server.backends.sharded server.metrics"),
    ("pinlater.server.backends.redis", "errors model protocol server.backends server.backends.sharded server.metrics"),
    ("pinlater.server.stores", "errors server.backends server.backends.* server.config server.metrics"),
    ("pinlater.server.peer_processes", "errors server.backends"),
    ("pinlater.server.metrics", ""),
    ("pinlater.server.config", "errors"),
    # The worker, from its processes down to what they share.
    ("pinlater.worker", "* client durations environment errors jobs logs model protocol pinlater_supervisor"),
    ("pinlater.worker.keeper", "client errors model pinlater_supervisor protocol worker.claim_table worker.session"),
    (
        "pinlater.worker.processes",
        "client errors jobs model pinlater_supervisor protocol worker.claim_table worker.running worker.session",
    ),
    ("pinlater.worker.running", "client errors jobs model worker.claim_table worker.session"),
    ("pinlater.worker.session", "client errors jobs model pinlater_supervisor protocol worker.claim_table"),
    ("pinlater.worker.claim_table", "errors model"),
    (
        "pinlater.testing",
        "client errors jobs model protocol server server.* worker worker.*",
    ),
]
"""Each package or root module, and what it may import. ``*`` stands for all packages inside it. The modules that
stand directly in ``pinlater/server`` and ``pinlater/worker`` put the rest together; those in SHARED are used by it."""

SHARED = {
    "pinlater.server.child_loop",
    "pinlater.server.clock",
    "pinlater.server.log_rate_limit",
    "pinlater.server.retry_until_done",
    "pinlater.worker.log_once",
    "pinlater.worker.logs",
    "pinlater.worker.class_page",
    "pinlater.worker.once_token",
    "pinlater.worker.options",
    "pinlater.worker.origin",
    "pinlater.worker.pools",
    "pinlater.worker.pipe_event",
    "pinlater.worker.shared",
    "pinlater.worker.terminal",
}
"""Modules of the two programs that all of their packages may import."""

PACKAGES = {name: words.split() for name, words in LAYERS}


def modules():
    for name, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (name, *path.relative_to(folder).with_suffix("").parts)
            yield ".".join(parts).removesuffix(".__init__"), path


MODULES = dict(modules())
OURS = [name for name in MODULES if name.startswith("pinlater.")]


@functools.cache
def tree_of(name):
    return ast.parse(MODULES[name].read_text(), str(MODULES[name]))


@functools.cache
def nodes_of(name):
    return tuple(ast.walk(tree_of(name)))


def imported_by(node):
    """Yield the modules that an import names; ``from package import module`` names the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: write the whole name instead of dots"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in MODULES else node.module


@functools.cache
def imports(name):
    return {target for node in nodes_of(name) for target in imported_by(node)}


@functools.cache
def part_of(name):
    """``pinlater.protocol.codec`` -> ``pinlater.protocol``: the nearest package that has a line in LAYERS."""
    while name not in PACKAGES and "." in name:
        name = name.rpartition(".")[0]
    return name


@functools.cache
def allowed(part):
    """Return the packages that the modules of a package may import."""
    found = {part}
    for word in PACKAGES[part]:
        name = word if word == "pinlater_supervisor" else f"pinlater.{word.removesuffix('.*')}"
        inside = part if word == "*" else name if word.endswith(".*") else None
        found |= {name} if word != "*" else set()
        found |= {each for each in PACKAGES if inside is not None and each.startswith(f"{inside}.")}
    return found


def test_imports_run_one_way():
    for name in OURS:
        part = part_of(name)
        assert part in PACKAGES, f"say in LAYERS what {part} may import"
        ours = {target for target in imports(name) if target.split(".")[0] in SOURCES} - {"pinlater"} - SHARED
        assert {part_of(target) for target in ours} - allowed(part) == set(), name


def test_packages_form_no_cycle():
    graph = {
        part: {target for target in allowed(part) if not f"{part}.".startswith(f"{target}.")} & PACKAGES.keys()
        for part in PACKAGES
    }
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    assert graph == {}


def test_of_the_root_only_the_version_is_used_inside():
    taken = {
        (name, alias.name)
        for name in OURS
        for node in nodes_of(name)
        if isinstance(node, ast.ImportFrom) and node.module == "pinlater"
        for alias in node.names
        if f"pinlater.{alias.name}" not in MODULES
    }
    assert [each for each in taken if each[1] != "__version__"] == []


def test_the_supervisor_knows_nothing_of_pinlater():
    for name in (name for name in MODULES if name.startswith("pinlater_supervisor")):
        assert {target.split(".")[0] for target in imports(name)} & {"pinlater", "jobs_example"} == set(), name


def test_the_name_supervisor_is_left_to_supervisord():
    assert not (ROOT / "supervisor" / "__init__.py").exists()


def test_only_the_protocol_knows_thriftpy2():
    knowing = {part_of(name) for name in MODULES if any(t.split(".")[0] == "thriftpy2" for t in imports(name))}
    assert knowing == {"pinlater.protocol"}


def test_examples_use_public_names_only():
    for name in (name for name in MODULES if name.startswith("jobs_example") and ".demo" not in name):
        ours = {target for target in imports(name) if target.split(".")[0] == "pinlater"}
        assert ours <= {"pinlater"}, name


def imports_at_load(tree):
    """Yield the imports that run when the module is loaded: none in functions, none for types alone."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield from imported_by(node)
        waiting.extend(ast.iter_child_nodes(node))


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: set(imports_at_load(tree_of(name))) & MODULES.keys() - {name} for name in MODULES}
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    assert graph == {}


def forbidden_uses(nodes):
    for node in nodes:
        if any(
            target.split(".")[0] in {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml"}
            for target in imported_by(node)
        ):
            yield f"line {node.lineno}: import"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
            yield f"line {node.lineno}: {node.func.id}"


def test_nothing_turns_data_into_code():
    assert [(name, use) for name in MODULES for use in forbidden_uses(nodes_of(name))] == []


@pytest.mark.parametrize("source", ["import pickle", "from yaml import load", "eval('1')", "def f():\n  exec(x)"])
def test_such_things_would_be_found(source):
    assert list(forbidden_uses(ast.walk(ast.parse(source))))


def test_public_names_exist():
    assert len(pinlater.__all__) == len(set(pinlater.__all__))
    for name in pinlater.__all__:
        assert getattr(pinlater, name) is not None


@pytest.mark.parametrize("name", ["pinlater", "pinlater.client", "pinlater.testing"])
def test_type_checkers_know_the_names_that_are_imported_on_first_use(name):
    known = {
        alias.asname or alias.name
        for node in nodes_of(name)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    public = importlib.import_module(name).__all__
    assert [each for each in public if each not in known and not each.startswith("__")] == []
    assert all(getattr(importlib.import_module(name), each) is not None for each in public)


def test_every_part_can_be_imported():
    django_project.set_up()
    for name in MODULES:
        if not name.endswith("__main__"):
            importlib.import_module(name)


def test_a_module_of_jobs_does_not_load_thrift():
    code = "import sys, pinlater; sys.exit('thriftpy2' in sys.modules or 'pinlater.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=30, check=False).returncode == 0
