"""Python blocks: they are executed in one namespace per page; what they define is put to use."""

import asyncio
import functools
import importlib
import inspect
import sys

from pinlater.jobs.job import is_concrete
from pinlater.testing import LocalServer


class Snippets:
    """The Python of one page.

    Args:
        names: what the page takes for granted, such as the bank that its job charges.
        folder: for files and servers of its tests.
    """

    def __init__(self, names, folder):
        self.names = dict(names)
        self._folder = folder
        self._modules = []
        self._kinds = {}
        self._ran = set()
        self._servers = 0

    def run(self, block, code):
        """Execute a block; run the tests that it defines."""
        before = {name: id(value) for name, value in self.names.items()}
        namespace = self.names
        namespace["__name__"] = "page"
        exec(compile("\n" * (block.line - 1) + code, str(block.page), "exec"), namespace)
        fresh = {name: value for name, value in namespace.items() if before.get(name) != id(value)}
        for name, value in fresh.items():
            if is_concrete(value) and value.__module__ == "page":
                self._watch(value, block)
            if name.startswith("test_") and inspect.isfunction(value):
                self._test(value)

    def load(self, name):
        """Import a module that the page has shown; the page can use its names."""
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        self._modules.append(name)
        self.names.update({key: value for key, value in vars(module).items() if not key.startswith("__")})

    def never_ran(self):
        """Return the places of job classes that were shown and never run."""
        return [place for kind, place in self._kinds.items() if kind not in self._ran]

    def close(self):
        """Forget the modules."""
        for name in self._modules:
            sys.modules.pop(name, None)

    def _watch(self, kind, block):
        name, run = kind.__name__, kind.run
        self._kinds[name] = f"{block.place}: {name}"
        if inspect.iscoroutinefunction(run):

            @functools.wraps(run)
            async def watched(job, context):
                self._ran.add(name)
                return await run(job, context)
        else:

            @functools.wraps(run)
            def watched(job, context):
                self._ran.add(name)
                return run(job, context)

        kind.run = watched

    def _test(self, function):
        wanted = inspect.signature(function).parameters
        self._servers += 1
        if "pinlater_server" not in wanted:
            _call(function, {})
            return
        with LocalServer(self._folder / f"server-{self._servers}") as server:
            _call(function, {"pinlater_server": server})


def _call(function, fixtures):
    result = function(**fixtures)
    if inspect.iscoroutine(result):
        asyncio.run(result)
