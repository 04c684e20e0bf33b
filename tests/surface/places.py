"""Where private code is found: by the name that it defines, so that moving a module needs no change here.

All names of private code that the snapshot relies on stand in this file. Rename one, and change it here.
"""

import ast
import functools
import importlib
import io
import re
import threading
from pathlib import Path

import thriftpy2

ROOT = Path(__file__).parents[2]
SOURCES = {"pinlater": ROOT / "pinlater", "pinlater_supervisor": ROOT / "supervisor" / "pinlater_supervisor"}


@functools.cache
def idl():
    """Load the Thrift file of the project, wherever it is."""
    return thriftpy2.load_fp(io.StringIO(_idl_text()), "surface_thrift")


@functools.cache
def plain_idl():
    """Load it without defaults: what was read with it shows which fields were sent."""
    text = re.sub(r"^( +\d+: optional .*?\w) = .*,$", r"\1,", _idl_text(), flags=re.MULTILINE)
    return thriftpy2.load_fp(io.StringIO(text), "surface_plain_thrift")


_PARSING = threading.Lock()


def _idl_text():
    [path] = (ROOT / "pinlater").rglob("pinlater.thrift")
    return path.read_text(encoding="utf-8")


@functools.cache
def server_codec():
    """Return what encodes the server's replies."""
    return find("Codec")()


def encode_reply(method, sequence_id, success):
    """Return a reply as the server encodes it, as a frame."""
    return server_codec().encode_reply(method, sequence_id, success)


def encode_error(method, sequence_id, error):
    """Return a declared error as the server encodes it, as a frame."""
    return server_codec().encode_service_error(method, sequence_id, error)


def ignored_settings():
    """Return the settings of the original service that are accepted and ignored."""
    return sorted(find("IGNORED_KEYS"))


def machine_paths():
    """Return the paths of the admin port that are for programs."""
    return sorted(find("MonitoringPages")(None).by_path)


def dashboard_routes():
    """Return the routes of the dashboard."""
    from starlette.routing import Route

    module = importlib.import_module(home_of("make_app"))
    [routes] = [
        value
        for value in vars(module).values()
        if isinstance(value, list) and value and all(isinstance(each, Route) for each in value)
    ]
    return routes


def find(name):
    """Return what the project defines under a name, at the top of one of its modules."""
    return getattr(importlib.import_module(home_of(name)), name)


def home_of(name):
    """Return the name of the module that defines a name."""
    found = [module for module, names in _definitions().items() if name in names]
    assert len(found) == 1, f"{name} is defined in {found or 'no module'}: change tests/surface/places.py"
    return found[0]


@functools.cache
def _definitions():
    return {module: set(_defined_in(tree)) for module, tree in trees().items()}


def trees():
    """Return the syntax of all modules, by name. One thread parses: CPython 3.11 fails if two do so at once."""
    with _PARSING:
        return _trees()


@functools.cache
def _trees():
    found = {}
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            module = ".".join([package, *(part for part in parts if part != "__init__")])
            found[module] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def _defined_in(tree):
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
