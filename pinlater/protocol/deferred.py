"""Packages of others whose own code runs only when it is needed, so that importing one module of theirs is cheap.

``import thriftpy2.thrift`` first runs the code of the package ``thriftpy2``. It loads a parser of Thrift files, and
with that an HTTP client and the modules for e-mail: several times what encoding and decoding take.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import Any


def defer_package(name: str) -> None:
    """Let a package's own code wait until somebody asks for a name that it defines.

    Modules in the package can be imported at once. To others who import the package it looks as always.

    Args:
        name: of a package; that of its parent, if it has one, is imported or deferred already. One that is imported
            already stays as it is.
    """
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return  # whoever imports it hears of that
    package, loader = module_from_spec(spec), spec.loader
    lock = RLock()  # another thread waits until the code has run; the code itself may ask for names that are missing
    is_begun = False

    def find(attribute: str) -> Any:
        nonlocal is_begun
        with lock:
            if not is_begun:
                is_begun = True
                loader.exec_module(package)
        if attribute not in vars(package):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return vars(package)[attribute]

    vars(package)["__getattr__"] = find
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)
