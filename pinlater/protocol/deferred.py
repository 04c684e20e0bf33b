"""Defer the code of third-party packages until it is needed, so that importing one of their modules is cheap.

``import thriftpy2.thrift`` first runs the code of the package ``thriftpy2``. That loads a parser of Thrift files, and
with it an HTTP client and the e-mail modules: several times as much as encoding and decoding need.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import Any


def defer_package(name: str) -> None:
    """Put off running a package's own code until a name that it defines is used.

    Modules in the package can be imported at once. Other importers of the package notice no difference.

    Args:
        name: name of the package; its parent, if any, must be imported or deferred already. A package that is
            imported already is left as it is.
    """
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return  # importing it raises the error
    package, loader = module_from_spec(spec), spec.loader
    lock = RLock()  # other threads wait until the code has run; the code itself may look up missing names
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
