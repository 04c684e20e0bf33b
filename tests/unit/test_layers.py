"""The rules that hold for the code as a whole: which part may know which, and what nobody may use."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pinlater

ROOT = Path(__file__).parents[2]
SOURCES = {
    "pinlater": ROOT / "pinlater",
    "pinlater_supervisor": ROOT / "supervisor" / "pinlater_supervisor",
    "jobs_example": ROOT / "jobs_example",
}

BASE = {"errors", "state", "status", "password", "backoff", "descriptor", "context"}
RUNNING = {
    "job",
    "job_options",
    "codec",
    "cursor",
    "delays",
    "follow_ups",
    "interruptible",
    "kept",
    "logs",
    "middleware",
    "modules",
    "next_run",
    "policy",
    "retrying",
    "schedule",
    "sleeping",
    "steps",
    "traces",
    "uses",
    "wire",
    "client",
}
"""What running jobs takes, in a worker and in tests."""

MAY_KNOW = {
    "errors": set(),
    "logs": set(),
    "state": set(),
    "password": set(),
    "status": set(),
    "backoff": set(),
    "traces": set(),
    "context": {"backoff", "errors", "job", "traces"},  # but for errors, for types alone
    "descriptor": {"errors"},
    "schedule": set(),
    "job_options": BASE | {"schedule"},
    "job": BASE | {"job_options"},
    "field_types": {"errors", "job"},
    "finite": set(),
    "tracing": BASE | {"job", "traces"},
    "interruptible": {"context", "errors"},
    "middleware": BASE | {"interruptible", "job"},
    "policy": BASE | {"job", "job_options"},
    "kept": {"errors", "policy"},
    "sleeping": {"errors", "interruptible"},
    "uses": set(),
    "next_run": set(),
    "follow_ups": set(),
    "delays": {"backoff"},
    "retrying": {"backoff"},
    "steps": BASE | {"delays", "finite", "interruptible", "job_options", "kept", "policy", "retrying", "uses"},
    "codec": BASE | {"field_types", "finite", "job", "kept"},
    "cursor": BASE | {"job"},
    "modules": BASE | {"codec", "job", "middleware"},
    "wire": BASE,
    "client": BASE | {"traces", "tracing", "logs", "job", "job_options", "codec", "kept", "modules", "policy", "wire"},
    "worker": BASE | RUNNING | {"pinlater_supervisor"},
    "dashboard": BASE | {"kept", "wire", "client"},
    "server": BASE | {"logs", "wire", "pinlater_supervisor", "dashboard"},
    "testing": BASE | RUNNING | {"worker", "server"},
}
"""Part of ``pinlater`` -> the other parts that it may import."""


def modules():
    for name, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (name, *path.relative_to(folder).with_suffix("").parts)
            yield ".".join(parts).removesuffix(".__init__"), path


MODULES = dict(modules())


def trees():
    return {name: ast.parse(path.read_text(), str(path)) for name, path in MODULES.items()}


TREES = trees()


def imported_by(node):
    """Yield the modules that an import names; ``from package import module`` names the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: write the whole name instead of dots"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in MODULES else node.module


def imports(name):
    return {target for node in ast.walk(TREES[name]) for target in imported_by(node)}


def part_of(name):
    """``pinlater.wire.codec`` -> ``wire``; other packages are parts by themselves."""
    package, *inner = name.split(".")
    return inner[0] if package == "pinlater" and inner else package


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("pinlater.")])
def test_imports_run_one_way(name):
    part = part_of(name)
    assert part in MAY_KNOW, f"say in MAY_KNOW what {part} may import"
    ours = {target for target in imports(name) if target.split(".")[0] in SOURCES} - {"pinlater"}
    assert {part_of(target) for target in ours} - MAY_KNOW[part] - {part} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("pinlater.")])
def test_of_the_root_only_the_version_is_used_inside(name):
    taken = {
        alias.name
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.ImportFrom) and node.module == "pinlater"
        for alias in node.names
        if f"pinlater.{alias.name}" not in MODULES
    }
    assert taken <= {"__version__"}


def test_the_supervisor_knows_nothing_of_pinlater():
    for name in (name for name in MODULES if name.startswith("pinlater_supervisor")):
        assert {target.split(".")[0] for target in imports(name)} & {"pinlater", "jobs_example"} == set(), name


def test_the_name_supervisor_is_left_to_supervisord():
    assert not (ROOT / "supervisor" / "__init__.py").exists()


def test_only_wire_knows_thriftpy2():
    knowing = {part_of(name) for name in MODULES if any(t.split(".")[0] == "thriftpy2" for t in imports(name))}
    assert knowing == {"wire"}


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
    graph = {name: set(imports_at_load(tree)) & MODULES.keys() - {name} for name, tree in TREES.items()}
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    assert graph == {}


def forbidden_uses(tree):
    for node in ast.walk(tree):
        if any(
            target.split(".")[0] in {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml"}
            for target in imported_by(node)
        ):
            yield f"line {node.lineno}: import"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
            yield f"line {node.lineno}: {node.func.id}"


@pytest.mark.parametrize("name", MODULES)
def test_nothing_turns_data_into_code(name):
    assert list(forbidden_uses(TREES[name])) == []


@pytest.mark.parametrize("source", ["import pickle", "from yaml import load", "eval('1')", "def f():\n  exec(x)"])
def test_such_things_would_be_found(source):
    assert list(forbidden_uses(ast.parse(source)))


def test_public_names_exist():
    assert len(pinlater.__all__) == len(set(pinlater.__all__))
    for name in pinlater.__all__:
        assert getattr(pinlater, name) is not None


def test_every_part_can_be_imported():
    for name in MODULES:
        if not name.endswith("__main__"):
            importlib.import_module(name)


def test_a_module_of_jobs_does_not_load_thrift():
    code = "import sys, pinlater; sys.exit('thriftpy2' in sys.modules or 'pinlater.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=30, check=False).returncode == 0
