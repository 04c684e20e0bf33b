"""Packages whose own code waits until it is needed."""

import importlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinlater.protocol.deferred import defer_package
from tests.support.server import environment

CODE = """
import time
from builtins import runs
runs.append(__name__)
time.sleep(0.05)  # so that other threads come meanwhile
from {name}.parts import PART
MADE = "made"
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a package that notes each run of its code in ``runs``, and has a module and a package in it."""
    name = f"deferred_{tmp_path.name}"
    for folder, code in ((tmp_path / name, CODE.format(name=name)), (tmp_path / name / "inner", "INNER = 1")):
        folder.mkdir()
        (folder / "__init__.py").write_text(code)
    (tmp_path / name / "parts.py").write_text("PART = 'part'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.runs", [], raising=False)
    yield name
    for known in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[known]


def runs():
    import builtins

    return builtins.runs


def test_its_modules_are_imported_without_its_code(package):
    defer_package(package)
    assert importlib.import_module(f"{package}.parts").PART == "part"
    assert runs() == []


def test_its_code_runs_for_the_first_name_that_it_defines(package):
    defer_package(package)
    imported = importlib.import_module(package)
    assert imported.MADE == "made"
    assert imported.PART == "part"
    assert runs() == [package]


def test_a_name_that_it_does_not_define_is_missing(package):
    defer_package(package)
    imported = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'OTHER'"):
        _ = imported.OTHER
    assert not hasattr(imported, "ANOTHER")
    assert runs() == [package]


def test_threads_wait_until_its_code_has_run(package):
    defer_package(package)
    imported = importlib.import_module(package)
    begin = threading.Barrier(8)

    def read():
        begin.wait(20)
        return imported.MADE

    with ThreadPoolExecutor(8) as threads:
        assert {future.result(20) for future in [threads.submit(read) for _ in range(8)]} == {"made"}
    assert runs() == [package]


def test_a_package_inside_one_is_an_attribute_of_it(package):
    defer_package(package)
    defer_package(f"{package}.inner")
    assert importlib.import_module(package).inner.INNER == 1
    assert runs() == []


def test_one_that_is_imported_stays(package):
    imported = importlib.import_module(package)
    defer_package(package)
    assert sys.modules[package] is imported
    assert runs() == [package]


def test_one_that_does_not_exist_is_left_to_whoever_imports_it():
    defer_package("no_such_package")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package")


@pytest.mark.parametrize("first", ["pinlater.protocol.codec", "thriftpy2"])
def test_a_program_may_use_thriftpy2_as_always(first):
    program = f"""
import importlib, io
importlib.import_module({first!r})
import pinlater.protocol.codec
import thriftpy2, thriftpy2.protocol
from thriftpy2 import load_fp
from thriftpy2.protocol import TJSONProtocolFactory
assert thriftpy2.load_fp is load_fp and thriftpy2.__version__
assert thriftpy2.protocol.TJSONProtocolFactory is TJSONProtocolFactory
assert load_fp(io.StringIO("struct Point {{ 1: i32 x }}"), "points_thrift").Point(x=1).x == 1
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
